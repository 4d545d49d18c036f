GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.7.0

.PHONY: all build test race lint bench fuzz conformance demo install clean

all: build

build:
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# Not from the cache, which knows nothing of the programs that compat/integration
# builds and runs.
test: build
	$(GO) test -count=1 ./...

race:
	$(GO) test -count=1 -race ./...

lint:
	$(GO) vet ./...
	$(STATICCHECK) ./...
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./fdb ./netdev ./bridge ./vxlan

# Every fuzz target for FUZZTIME each.
FUZZTIME ?= 1m
fuzz:
	scripts/fuzz $(FUZZTIME)

# The scenarios whose transcripts must be the kernel's; needs root.
conformance: build
	scripts/conformance

demo: build
	scripts/demo

install: build
	install -D -m 0755 bin/linkspand $(DESTDIR)$(PREFIX)/bin/linkspand
	install -D -m 0755 bin/linkspan $(DESTDIR)$(PREFIX)/bin/linkspan
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/bin|$(PREFIX)/bin|' packaging/systemd/linkspand.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/linkspand.service
	chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/linkspand.service

clean:
	rm -rf bin
