/* Prints the names of all interfaces with what getifaddrs(3) says of them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void)
{
	struct ifaddrs *list;
	char text[INET6_ADDRSTRLEN];

	if (getifaddrs(&list) != 0) {
		perror("getifaddrs");
		return 1;
	}
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr)
			continue;
		switch (i->ifa_addr->sa_family) {
		case AF_PACKET:
			printf("%s packet\n", i->ifa_name);
			break;
		case AF_INET:
			printf("%s %s\n", i->ifa_name,
			       inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, text, sizeof text));
			break;
		}
	}
	freeifaddrs(list);

	struct if_nameindex *names = if_nameindex();
	if (!names) {
		perror("if_nameindex");
		return 1;
	}
	for (struct if_nameindex *i = names; i->if_index; i++)
		if (if_nametoindex(i->if_name) != i->if_index) {
			fprintf(stderr, "if_nametoindex(%s) is not %u\n", i->if_name, i->if_index);
			return 1;
		}
	return 0;
}
