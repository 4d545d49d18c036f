/* A netlink client for the tests of the shim. Each mode prints what it saw; the
 * tests compare that with a run against the kernel, or look for "ok". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

struct req {
	struct nlmsghdr n;
	struct ifinfomsg i;
};

static struct req getlink(int seq)
{
	struct req q = { { sizeof q, RTM_GETLINK, NLM_F_REQUEST, seq, 0 }, { 0 } };
	q.i.ifi_index = 1;
	return q;
}

#define TRY(call) do { \
		errno = 0; \
		long r_ = (call); \
		printf("%s: %s%s\n", #call, r_ < 0 ? "" : "ok", r_ < 0 ? strerror(errno) : ""); \
	} while (0)

/* What must be the same as on a socket of the kernel's, call by call. */
static int options(void)
{
	struct sockaddr_nl a = { .nl_family = AF_NETLINK }, b;
	struct sockaddr_nl in = { .nl_family = AF_INET }, far = { .nl_family = AF_NETLINK, .nl_pid = 0xfffffff0 };
	struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = 6 }, un = { .nl_family = AF_UNSPEC };
	struct sockaddr_nl other = { .nl_family = AF_NETLINK, .nl_pid = 12345678, .nl_groups = 1 };
	struct req q = getlink(1);
	char *bad = (char *)8, big[64];
	int v, one = 1, group1 = 1, group33 = 33, s;
	unsigned w[64];
	socklen_t l;

	TRY(socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
	TRY(socket(AF_NETLINK, 99, NETLINK_ROUTE));
	s = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	printf("flags %x %x\n", fcntl(s, F_GETFD), fcntl(s, F_GETFL) & O_NONBLOCK);
	l = sizeof b;
	TRY(getsockname(s, (void *)&b, &l));
	printf("unbound: family %d pid %u groups %x len %d\n", b.nl_family, b.nl_pid, b.nl_groups, l);
	for (int i = 0; i < 3; i++) {
		static const int opt[] = { SO_TYPE, SO_DOMAIN, SO_PROTOCOL };
		v = -1;
		l = sizeof v;
		TRY(getsockopt(s, SOL_SOCKET, opt[i], &v, &l));
		printf("option %d is %d, %d bytes\n", opt[i], v, l);
		l = 1;
		v = 0;
		TRY(getsockopt(s, SOL_SOCKET, opt[i], &v, &l));
		printf("one byte of %d is %d, %d bytes\n", opt[i], v, l);
	}
	TRY(bind(s, (void *)&in, sizeof in));
	TRY(bind(s, (void *)&a, 11));
	TRY(bind(s, (void *)&a, 0));
	TRY(bind(s, (void *)&a, -1));
	TRY(bind(s, (void *)&un, 2));
	TRY(bind(s, (void *)bad, sizeof a));
	TRY(bind(s, (void *)&a, sizeof a));
	l = sizeof b;
	TRY(getsockname(s, (void *)&b, &l));
	printf("bound: pid is ours %d groups %x len %d\n", b.nl_pid == (unsigned)getpid(), b.nl_groups, l);
	l = 4;
	memset(&b, 0xff, sizeof b);
	TRY(getsockname(s, (void *)&b, &l));
	printf("short: family %d pid %u len %d\n", b.nl_family, b.nl_pid, l);
	l = -1;
	TRY(getsockname(s, (void *)&b, &l));
	l = sizeof b;
	TRY(getsockname(s, (void *)bad, &l));
	TRY(getsockname(s, (void *)&b, (void *)bad));
	TRY(bind(s, (void *)&other, sizeof other));
	l = sizeof b;
	TRY(getpeername(s, (void *)&b, &l));
	printf("peer: family %d pid %u groups %x len %d\n", b.nl_family, b.nl_pid, b.nl_groups, l);

	TRY(setsockopt(s, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group1, sizeof group1));
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group33, sizeof group33));
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof one));
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, bad, sizeof one));
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &one, -1));
	TRY(setsockopt(s, SOL_NETLINK, 77, &one, sizeof one));
	l = sizeof v;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &v, &l));
	printf("ext_ack %d len %d\n", v, l);
	TRY(setsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &one, 1)); /* too short: zero */
	l = sizeof v;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &v, &l));
	printf("ext_ack %d len %d\n", v, l);
	l = 3;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &v, &l));
	l = 3;
	TRY(getsockopt(s, SOL_NETLINK, 77, &v, &l));
	l = -1;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &v, &l));
	l = sizeof v;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, bad, &l));
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_EXT_ACK, &v, (void *)bad));
	memset(w, 0, sizeof w);
	l = sizeof w;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, w, &l));
	printf("memberships %x %x\n", w[0], w[1]);
	l = 0;
	TRY(getsockopt(s, SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, w, &l));
	l = sizeof b;
	getsockname(s, (void *)&b, &l);
	printf("groups %x\n", b.nl_groups);

	TRY(send(s, &q, 0, 0));
	TRY(send(s, &q, sizeof q, MSG_OOB));
	TRY(send(s, bad, sizeof q, 0));
	TRY(send(s, &q, sizeof q, 0));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&a, sizeof a));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&a, 11));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&a, 129));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&in, sizeof in));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&un, sizeof un));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&far, sizeof far));
	TRY(sendto(s, &q, sizeof q, 0, (void *)&group, sizeof group));
	TRY(sendto(s, &q, sizeof q, 0, (void *)bad, sizeof a));

	struct iovec iov[2] = { { &q, 7 }, { (char *)&q + 7, sizeof q - 7 } };
	struct msghdr m = { .msg_name = &a, .msg_namelen = sizeof a, .msg_iov = iov, .msg_iovlen = 2 };
	TRY(sendmsg(s, &m, 0));
	m.msg_iovlen = 1025;
	TRY(sendmsg(s, &m, 0));
	m.msg_iovlen = 2;
	m.msg_iov = (void *)bad;
	TRY(sendmsg(s, &m, 0));
	TRY(sendmsg(s, (void *)bad, 0));
	m.msg_iov = iov;
	m.msg_namelen = -1;
	TRY(sendmsg(s, &m, 0));
	m.msg_namelen = 4;
	TRY(sendmsg(s, &m, 0));
	m.msg_name = 0;
	TRY(sendmsg(s, &m, 0));
	m.msg_iovlen = 0;
	TRY(sendmsg(s, &m, 0));

	TRY(connect(s, (void *)&a, sizeof a));
	TRY(connect(s, (void *)&a, 4));
	TRY(connect(s, (void *)&a, 1));
	TRY(connect(s, (void *)&in, sizeof in));
	TRY(connect(s, (void *)bad, sizeof a));
	TRY(connect(s, (void *)&far, sizeof far));
	TRY(send(s, &q, sizeof q, 0));
	l = sizeof b;
	TRY(getpeername(s, (void *)&b, &l));
	printf("peer: family %d pid %x groups %x len %d\n", b.nl_family, b.nl_pid, b.nl_groups, l);
	TRY(connect(s, (void *)&group, sizeof group));
	l = sizeof b;
	TRY(getpeername(s, (void *)&b, &l));
	printf("peer: family %d pid %x groups %x len %d\n", b.nl_family, b.nl_pid, b.nl_groups, l);
	TRY(connect(s, (void *)&un, 2));
	TRY(send(s, &q, sizeof q, 0));

	int n = 0;
	while (recv(s, big, sizeof big, 0) > 0)
		n++;
	printf("%d replies, then %s\n", n, strerror(errno));
	l = sizeof b;
	TRY(recvfrom(s, big, sizeof big, 0, (void *)&b, &l));
	TRY(recvfrom(s, big, sizeof big, MSG_OOB, (void *)&b, &l));
	send(s, &q, sizeof q, 0);
	memset(&b, 0xff, sizeof b);
	l = sizeof b;
	n = recvfrom(s, big, 16, MSG_PEEK | MSG_TRUNC, (void *)&b, &l);
	printf("peek: all %d family %d pid %u len %d type %d\n", n > 16, b.nl_family, b.nl_pid, l, ((struct nlmsghdr *)big)->nlmsg_type);
	l = 2;
	n = recvfrom(s, big, 16, 0, (void *)&b, &l);
	printf("cut: %d len %d\n", n, l);
	send(s, &q, sizeof q, 0);
	TRY(recvfrom(s, bad, 16, 0, (void *)&b, &l));
	TRY(recvfrom(s, big, 16, 0, (void *)&b, &l));
	send(s, &q, sizeof q, 0);
	l = sizeof b;
	TRY(recvfrom(s, big, 16, 0, (void *)&b, (void *)bad));
	send(s, &q, sizeof q, 0);
	l = -1;
	TRY(recvfrom(s, big, 16, 0, (void *)&b, &l));
	TRY(close(s));
	TRY(getsockname(s, (void *)&b, &l));
	return 0;
}

/* One request and its reply on s. */
static int ask(int s, int seq)
{
	struct req q = getlink(seq);
	char b[16384];
	struct sockaddr_nl f;
	socklen_t l = sizeof f;
	int r;

	while (send(s, &q, sizeof q, 0) < 0)
		if (errno != EINTR)
			return perror("send"), 1;
	while ((r = recvfrom(s, b, sizeof b, 0, (void *)&f, &l)) < 0)
		if (errno != EINTR)
			return perror("recvfrom"), 1;
	struct nlmsghdr *n = (void *)b;
	if (r < (int)sizeof *n || (int)n->nlmsg_seq != seq || n->nlmsg_type != RTM_NEWLINK)
		return fprintf(stderr, "seq %d: got %d bytes, type %d seq %d\n", seq, r, n->nlmsg_type, n->nlmsg_seq), 1;
	if (l != sizeof f || f.nl_family != AF_NETLINK || f.nl_pid)
		return fprintf(stderr, "seq %d: from family %d\n", seq, f.nl_family), 1;
	if (recv(s, b, sizeof b, MSG_DONTWAIT) >= 0)
		return fprintf(stderr, "seq %d: one reply too many\n", seq), 1;
	return 0;
}

static int fresh(int seq)
{
	int s, bad;
	while ((s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) < 0)
		if (errno != EINTR)
			return perror("socket"), 1;
	bad = ask(s, seq);
	close(s);
	return bad;
}

/* getifaddrs of musl receives without waiting right after it has sent. */
static int names(void)
{
	for (int i = 0; i < 50; i++) {
		struct if_nameindex *x = if_nameindex();
		if (!x)
			return perror("if_nameindex"), 1;
		for (struct if_nameindex *y = x; !i && y->if_index; y++)
			printf("%u %s\n", y->if_index, y->if_name);
		if_freenameindex(x);
		struct ifaddrs *a;
		if (getifaddrs(&a))
			return perror("getifaddrs"), 1;
		freeifaddrs(a);
	}
	return 0;
}

static int open_now(void)
{
	int n = 0;
	for (int i = 0; i < 2048; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

static void tick(int sig) { (void)sig; }

/* A signal every 300 us, with handlers that do not restart system calls. */
static int signals(void)
{
	struct sigaction sa = { .sa_handler = tick };
	struct itimerval it = { { 0, 300 }, { 0, 300 } };
	int before = open_now();
	sigaction(SIGALRM, &sa, 0);
	setitimer(ITIMER_REAL, &it, 0);
	for (int k = 1; k <= 1000; k++)
		if (fresh(k))
			return 1;
	if (open_now() != before)
		return fprintf(stderr, "%d descriptors, were %d\n", open_now(), before), 1;
	return puts("ok"), 0;
}

/* alarm(2) has to interrupt a receive that waits. */
static int waits(void)
{
	struct sigaction sa = { .sa_handler = tick };
	struct sockaddr_nl f;
	socklen_t l = sizeof f;
	char b[100];
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct timeval tv = { 0, 50000 };

	sigaction(SIGALRM, &sa, 0);
	alarm(1);
	TRY(recvfrom(s, b, sizeof b, 0, (void *)&f, &l));
	alarm(1);
	TRY(recv(s, b, sizeof b, 0));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	TRY(recvfrom(s, b, sizeof b, 0, (void *)&f, &l));
	return 0;
}

static void *worker(void *arg)
{
	long id = (long)arg;
	for (int k = 1; k <= 100; k++)
		if (fresh(id * 1000 + k))
			return (void *)1;
	return 0;
}

/* Threads that share nothing but descriptors numbers, in processes that fork. */
static int threads(void)
{
	int st, bad = 0, shared = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	for (int p = 0; p < 3; p++)
		if (!fork()) {
			pthread_t t[4];
			void *r;
			for (long i = 0; i < 4; i++)
				pthread_create(&t[i], 0, worker, (void *)(i + 1));
			for (int i = 0; i < 4; i++) {
				pthread_join(t[i], &r);
				bad |= r != 0;
			}
			_exit(bad);
		}
	while (wait(&st) > 0)
		bad |= st;
	if (!fork())
		_exit(ask(shared, 9)); /* an inherited socket */
	wait(&st);
	bad |= st | ask(shared, 10);
	return bad ? 1 : (puts("ok"), 0);
}

/* Every way of copying a descriptor, and every way of sending. */
static int copies(void)
{
	struct sockaddr_nl b = { .nl_family = AF_NETLINK };
	socklen_t l = sizeof b;
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), one = 1;
	int d[] = { dup(s), fcntl(s, F_DUPFD, 5), fcntl(s, F_DUPFD_CLOEXEC, 900), dup2(s, 750), dup3(s, 751, O_CLOEXEC) };

	for (unsigned i = 0; i < sizeof d / sizeof *d; i++) {
		l = sizeof b;
		if (d[i] < 0 || ask(d[i], i + 1) || getsockname(d[i], (void *)&b, &l) || b.nl_family != AF_NETLINK)
			return fprintf(stderr, "copy %u at %d\n", i, d[i]), 1;
	}
	printf("cloexec %d %d %d; at least 900: %d\n", fcntl(d[0], F_GETFD), fcntl(d[1], F_GETFD), fcntl(d[2], F_GETFD), d[2] >= 900);
	TRY(fcntl(s, F_DUPFD, 100000000));

	/* A copy with a low number: slower to answer, but it answers. */
	struct req q = getlink(77);
	char buf[8192];
	int low = dup2(s, 40);
	TRY(setsockopt(low, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof one));
	send(low, &q, sizeof q, 0);
	printf("low copy: seq %d\n", recv(low, buf, sizeof buf, 0) > 0 ? ((struct nlmsghdr *)buf)->nlmsg_seq : -1);
	struct sockaddr_nl a = { .nl_family = AF_NETLINK };
	int fd = dup2(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), 41);
	TRY(bind(fd, (void *)&a, sizeof a));

	write(s, &q, sizeof q);
	printf("write: seq %d\n", recv(s, buf, sizeof buf, 0) > 0 ? ((struct nlmsghdr *)buf)->nlmsg_seq : -1);
	struct iovec iov[3] = { { &q, sizeof q }, { &q, sizeof q }, { &q, 3 } };
	struct mmsghdr mm[3] = { { { .msg_iov = iov, .msg_iovlen = 1 }, 0 }, { { .msg_iov = iov + 1, .msg_iovlen = 1 }, 0 }, { { .msg_iov = 0, .msg_iovlen = 1 }, 0 } };
	printf("sendmmsg %d, lengths %u %u %u\n", sendmmsg(s, mm, 3, 0), mm[0].msg_len, mm[1].msg_len, mm[2].msg_len);
	TRY(recv(s, buf, sizeof buf, MSG_DONTWAIT));
	TRY(recv(s, buf, sizeof buf, MSG_DONTWAIT));
	TRY(recv(s, buf, sizeof buf, MSG_DONTWAIT));
	TRY(sendmmsg(s, mm + 2, 1, 0));
	return 0;
}

/* Ordinary sockets must not notice. */
static int others(void)
{
	struct sockaddr_nl a = { .nl_family = AF_NETLINK };
	int v = -1, p[2];
	socklen_t l = sizeof v;
	char b[8];

	int g = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	TRY(bind(g, (void *)&a, sizeof a));
	v = 1;
	TRY(setsockopt(g, SOL_NETLINK, NETLINK_EXT_ACK, &v, sizeof v));
	TRY(getsockopt(g, SOL_SOCKET, SO_PROTOCOL, &v, &l));
	printf("protocol %d\n", v);
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	p[0] = dup2(p[0], 800);
	p[1] = dup2(p[1], 801);
	TRY(send(p[0], "hello", 5, 0));
	struct sockaddr_storage ss;
	l = sizeof ss;
	TRY(recvfrom(p[1], b, sizeof b, 0, (void *)&ss, &l));
	TRY(getsockname(p[1], (void *)&ss, &l));
	l = sizeof v;
	TRY(getsockopt(p[1], SOL_SOCKET, SO_DOMAIN, &v, &l));
	printf("domain %d\n", v);
	TRY(bind(p[1], (void *)&a, sizeof a));
	TRY(dup(p[1]));
	TRY(send(1234567, "x", 1, 0));
	TRY(send(-1, "x", 1, 0));
	return 0;
}

static unsigned long next_random(void)
{
	static unsigned long x = 88172645463325252ul;
	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

/* Calls that are stopped, with arguments from hell. */
static int hostile(void)
{
	static const int nr[] = {
		SYS_socket, SYS_bind, SYS_connect, SYS_getsockname, SYS_getpeername, SYS_sendto, SYS_sendmsg,
		SYS_sendmmsg, SYS_recvfrom, SYS_setsockopt, SYS_getsockopt, SYS_dup, SYS_fcntl,
	};
	char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *readonly = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE);

	munmap(page + 4096, 4096);
	for (int i = 0; i < 20000; i++) {
		unsigned long pool[] = {
			0, 1, 2, 4, 8, 12, 16, 270, -1ul, 1ul << 63, 1ul << 31, ~0ul >> 1, 0xffffffff, 1ul << 47,
			(unsigned long)page, (unsigned long)page + 4096 - 12, (unsigned long)page + 4090,
			(unsigned long)readonly, 1 << 20, 1025, F_DUPFD, F_DUPFD_CLOEXEC, NETLINK_LIST_MEMBERSHIPS, 0x1000000,
		};
		unsigned long a[6];
		for (int k = 0; k < 6; k++)
			a[k] = next_random() % 8 ? pool[next_random() % (sizeof pool / sizeof *pool)] : next_random();
		for (int k = 0; k < 512; k++)
			((unsigned long *)page)[k] = pool[next_random() % (sizeof pool / sizeof *pool)];
		int n = nr[next_random() % (sizeof nr / sizeof *nr)];
		if (n == SYS_socket)
			a[0] = AF_NETLINK, a[2] = 0;
		else
			a[0] = s;
		if (n == SYS_fcntl)
			a[1] = F_DUPFD;
		if (n == SYS_recvfrom)
			a[3] |= MSG_DONTWAIT;
		long r = syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
		if ((n == SYS_socket || n == SYS_dup || n == SYS_fcntl) && r > 2)
			close(r);
	}
	fcntl(s, F_SETFL, 0);
	struct sockaddr_nl un = { .nl_family = AF_UNSPEC };
	connect(s, (void *)&un, sizeof un);
	while (recv(s, page, 4096, MSG_DONTWAIT) > 0)
		;
	return ask(s, 99) ? 1 : (puts("ok"), 0);
}

/* Asks $N times. */
static int speed(void)
{
	int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), n = atoi(getenv("N"));
	struct req q = getlink(1);
	struct iovec iov = { &q, sizeof q };
	struct sockaddr_nl a = { .nl_family = AF_NETLINK };
	struct msghdr m = { .msg_name = &a, .msg_namelen = sizeof a, .msg_iov = &iov, .msg_iovlen = 1 };
	char b[8192];

	for (int i = 0; i < n; i++)
		if (sendmsg(s, &m, 0) < 0 || recv(s, b, sizeof b, 0) < 0)
			return perror("speed"), 1;
	return 0;
}

/* Opens sockets and asks until it is killed. */
static int forever(void)
{
	puts("ready");
	fflush(stdout);
	for (int k = 1;; k++)
		if (fresh(k))
			return 1;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(void); } modes[] = {
		{ "options", options }, { "names", names }, { "signals", signals }, { "waits", waits },
		{ "threads", threads }, { "copies", copies }, { "others", others }, { "forever", forever }, { "speed", speed },
		{ "hostile", hostile },
	};
	for (unsigned i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
		if (!strcmp(argv[1], modes[i].name))
			return modes[i].run();
	return 2;
}
