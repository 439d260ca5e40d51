# Build, test and install chaosbpf. `make help` lists the targets.
#
#   V=1             show the commands            SANITIZE=1   AddressSanitizer and UBSan, in build-san/
#   CC, CLANG       the compilers                CFLAGS       yours: added last, never overwritten
#   prefix, DESTDIR where `make install` puts it FUZZ_SECONDS how long each fuzz target runs (20)
#   KERNEL, CASE    what `make vmtest` runs: lists separated by commas, cases may be globs

VERSION := 0.1.0

CC ?= cc
CLANG ?= clang
# Ubuntu's bpftool is a script that works only beside the running kernel's package; any real one will do.
ifndef BPFTOOL
BPFTOOL := $(shell bpftool version >/dev/null 2>&1 && echo bpftool || ls /usr/lib/linux-tools*/*/bpftool 2>/dev/null | tail -1)
endif
PKG_CONFIG ?= pkg-config
INSTALL ?= install

prefix ?= /usr/local
bindir ?= $(prefix)/bin
mandir ?= $(prefix)/share/man
datadir ?= $(prefix)/share
FUZZ_SECONDS ?= 20

CFLAGS ?= -O2 -g

# One build directory a flavour, so that switching between them rebuilds nothing. FUZZ=1 is for `make fuzz` alone.
SANITIZERS := address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
ifeq ($(FUZZ),1)
BUILD := build-fuzz
SANFLAGS := -fsanitize=fuzzer-no-link,$(SANITIZERS)
override CC := $(CLANG)
else ifeq ($(SANITIZE),1)
BUILD := build-san
SANFLAGS := -fsanitize=$(SANITIZERS)
else
BUILD := build
endif

ifeq ($(V),1)
Q :=
msg :=
else
Q := @
msg = @printf '  %-8s %s\n' "$(1)" "$(2)";
endif

PACKAGES := libbpf smartcols libmnl yaml-0.1 jansson sqlite3
# Loaded when they are needed (user/base/curl_library.h, user/base/microhttpd_library.h): built with are their headers alone.
LOADED_PACKAGES := libcurl libmicrohttpd
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers
PACKAGE_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) $(LOADED_PACKAGES) 2>/dev/null)
PACKAGE_LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null)
ALL_CFLAGS = -std=gnu17 $(WARNINGS) -D_GNU_SOURCE -DCHAOSBPF_VERSION='"$(VERSION)"' \
	-DCHAOSBPF_DATADIR='"$(datadir)/chaosbpf"' -I. -I$(BUILD) $(PACKAGE_CFLAGS) \
	$(SANFLAGS) $(CPPFLAGS) $(CFLAGS)
ALL_LIBS = $(LDFLAGS) $(PACKAGE_LIBS) -lelf -lz -lm

# The uapi headers of the host's architecture (asm/) are not on clang's path for the bpf target.
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
BPF_ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
BPF_CFLAGS := -target bpf -mcpu=v2 -O2 -g -Wall -Wextra -D__TARGET_ARCH_$(BPF_ARCH) -I. -I$(BUILD) \
	$(if $(MULTIARCH),-idirafter /usr/include/$(MULTIARCH))

# What measures is an object of its own: it is loaded without the faults, and they without it.
BPF_OBJECTS := $(patsubst bpf/%.c,$(BUILD)/bpf/%.o,$(filter-out bpf/observe.bpf.c,$(wildcard bpf/*.bpf.c)))
SKELETONS := $(BUILD)/chaos.skel.h $(BUILD)/observe.skel.h
OBJECTS := $(patsubst user/%.c,$(BUILD)/user/%.o,$(wildcard user/*/*.c))
LIBRARY_OBJECTS := $(filter-out $(BUILD)/user/cli/main.o,$(OBJECTS))
PROGRAM := $(BUILD)/chaosbpf

.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.PHONY: all victims install uninstall check check-bpf fuzz vmtest bench demo demo-ai test clean help libraries

all: $(PROGRAM)

help:
	@echo 'make [all]      build $(PROGRAM)'
	@echo 'make install    into $$(DESTDIR)$$(prefix), now $(DESTDIR)$(prefix); make uninstall takes it away'
	@echo 'make check      ring 1: host tests with sanitizers, needs no root'
	@echo 'make fuzz       the parsers under libFuzzer, FUZZ_SECONDS=$(FUZZ_SECONDS) each'
	@echo 'make check-bpf  ring 2: the BPF programs on this kernel, needs root'
	@echo 'make vmtest     ring 3: whole cases on the kernels of vmtest/kernels [KERNEL=6.1] [CASE=name]'
	@echo 'make test       all of these, and the sum at the end'
	@echo 'make bench      costs and times; make demo shows it at work; make clean'
	@echo 'make demo-ai    a RAG program of real SDKs and servers meets five faults, in a virtual machine [KERNEL=6.1]'
	@echo 'Options: V=1, SANITIZE=1, CC=, CLANG=, CFLAGS=, prefix=, DESTDIR='

# ---- libraries: say what is missing, and in which package it is, before anything is compiled

DEBIAN_libbpf := libbpf-dev (1.3 or later)
DEBIAN_smartcols := libsmartcols-dev
DEBIAN_libmnl := libmnl-dev
DEBIAN_yaml-0.1 := libyaml-dev
DEBIAN_jansson := libjansson-dev
DEBIAN_sqlite3 := libsqlite3-dev
# Any of its three is fine; this one's licence goes with the GPL.
DEBIAN_libcurl := libcurl4-gnutls-dev
DEBIAN_libmicrohttpd := libmicrohttpd-dev
DEBIAN_criterion := libcriterion-dev

require = $(if $(shell $(PKG_CONFIG) --exists $(1) $(2) 2>/dev/null && echo yes),,\
	echo "missing library: $(1); on Debian and Ubuntu it is in $(DEBIAN_$(1)). tools/install-deps installs all." >&2; exit 1;)
require_tool = command -v $(1) >/dev/null || \
	{ echo "missing program: $(1); on Debian and Ubuntu it is in $(2). tools/install-deps installs all." >&2; exit 1; };

libraries:
	@$(call require_tool,$(PKG_CONFIG),pkg-config) $(call require_tool,$(CLANG),clang) \
	$(call require_tool,$(or $(BPFTOOL),bpftool),bpftool (linux-tools-generic on Ubuntu)) \
	$(call require,libbpf,'libbpf >= 1.3') $(call require,smartcols) $(call require,libmnl) $(call require,yaml-0.1) \
	$(call require,jansson) $(call require,sqlite3) $(call require,libcurl) \
	$(call require,libmicrohttpd) :

# ---- the BPF side: every file an object, linked into one, the skeleton made from that

$(BUILD)/bpf/%.o: bpf/%.c | libraries
	@mkdir -p $(@D)
	$(call msg,BPF,$<)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -c $< -o $@

$(BUILD)/chaos.bpf.o: $(BPF_OBJECTS)
	$(call msg,LINK,$@)$(BPFTOOL) gen object $@ $(BPF_OBJECTS)

$(BUILD)/chaos.skel.h: $(BUILD)/chaos.bpf.o
	$(call msg,SKEL,$@)$(BPFTOOL) gen skeleton $< name chaos > $@

$(BUILD)/observe.skel.h: $(BUILD)/bpf/observe.bpf.o
	$(call msg,SKEL,$@)$(BPFTOOL) gen skeleton $< name observe_bpf > $@

# ---- the user side

$(BUILD)/user/%.o: user/%.c | $(SKELETONS) libraries
	@mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(PROGRAM): $(OBJECTS)
	$(call msg,LD,$@)$(CC) $(ALL_CFLAGS) $^ -o $@ $(ALL_LIBS)

# ---- tests: rings 1 and 2 are one criterion binary each, always with sanitizers, in build-san/

# Programs of the tests' own become skeletons as well.
test_objects = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %.bpf.c,$(wildcard $(1)/*.c)))
TEST_SKELETONS := $(patsubst %.bpf.c,$(BUILD)/%.skel.h,$(wildcard tests/bpf/*.bpf.c))

$(BUILD)/tests/bpf/%.bpf.o: tests/bpf/%.bpf.c | libraries
	@mkdir -p $(@D)
	$(call msg,BPF,$<)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -c $< -o $@

$(BUILD)/tests/bpf/%.skel.h: $(BUILD)/tests/bpf/%.bpf.o
	$(call msg,SKEL,$@)$(BPFTOOL) gen skeleton $< name $* > $@

$(BUILD)/tests/%.o: tests/%.c | $(SKELETONS) $(TEST_SKELETONS) libraries
	@$(call require,criterion) mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/host-tests: $(call test_objects,tests) $(LIBRARY_OBJECTS)
	$(call msg,LD,$@)$(CC) $(ALL_CFLAGS) $^ -o $@ $(ALL_LIBS) -lcriterion

$(BUILD)/bpf-tests: $(call test_objects,tests/bpf) $(LIBRARY_OBJECTS)
	$(call msg,LD,$@)$(CC) $(ALL_CFLAGS) $^ -o $@ $(ALL_LIBS) -lcriterion

# The assist's alone, for real kernels: vmtest/cases/assist.py. Without Criterion that case is skipped.
ASSIST_TESTS := $(if $(shell $(PKG_CONFIG) --exists criterion 2>/dev/null && echo yes),$(BUILD)/assist-tests)
$(BUILD)/assist-tests: $(addprefix $(BUILD)/tests/bpf/,test_assist.o test_assist_end.o test_assist_hold.o assist_shapes.o) \
		$(LIBRARY_OBJECTS)
	$(call msg,LD,$@)$(CC) $(ALL_CFLAGS) $^ -o $@ $(ALL_LIBS) -lcriterion

# What another clang makes of bpf/, see tests/compilers/run.sh: BUILD is its own, and compiled anew is what holds a skeleton.
REST ?= $(BUILD)
WITH_SKELETON := $(patsubst user/%.c,$(BUILD)/user/%.o,$(shell grep -l 'skel\.h"' user/*/*.c))
$(BUILD)/loads: $(BUILD)/tests/bpf/test_loads.o $(WITH_SKELETON) \
		$(patsubst $(BUILD)/%,$(REST)/%,$(filter-out $(WITH_SKELETON),$(LIBRARY_OBJECTS)))
	$(call msg,LD,$@)$(CC) $(ALL_CFLAGS) $^ -o $@ $(ALL_LIBS) -lcriterion

# Criterion gives the reason of a skipped test only when it is verbose. (Its TAP option leaks, which ASan reports.)
run_criterion = CRITERION_VERBOSITY_LEVEL=1 $(1) $(2) >$(1).log 2>&1; status=$$?; \
	sed '/^\[RUN \]/d; /^\[PASS\]/d; s/^\[SKIP\]/skip/' $(1).log; [ $$status = 0 ]

ifeq ($(SANITIZE),1)
check: $(PROGRAM) $(BUILD)/host-tests
	$(Q)$(call run_criterion,$(BUILD)/host-tests,-j2)
	$(Q)[ ! -e tests/cli/run.sh ] || CHAOSBPF=$(abspath $(PROGRAM)) tests/cli/run.sh
	$(Q)CHAOSBPF=$(abspath $(PROGRAM)) tests/browser/run.py
	$(Q)CHAOSBPF=$(abspath $(PROGRAM)) tests/fleet/run.py

check-bpf: $(PROGRAM) $(BUILD)/bpf-tests
	$(Q)if [ "$$(id -u)" = 0 ]; then $(call run_criterion,$(BUILD)/bpf-tests,-j1); \
	else echo 'skip check-bpf: needs root'; fi
	$(Q)CHAOSBPF=$(abspath $(PROGRAM)) FLEET=real PART='ansible_real_run*' tests/fleet/run.py
	$(Q)CLANG='$(CLANG)' BUILD='$(BUILD)' tests/compilers/run.sh
else
check check-bpf:
	$(Q)$(MAKE) --no-print-directory SANITIZE=1 $@
endif

# The corpus in the source tree stays as it is: libFuzzer adds what it finds to a copy.
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(LIBRARY_OBJECTS)
	$(call msg,LD,$@)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $^ -o $@ $(ALL_LIBS)

ifeq ($(FUZZ),1)
fuzz: $(FUZZERS)
	$(Q)tools/fuzz-all $(FUZZ_SECONDS) $(FUZZERS)
else
fuzz:
	$(Q)$(MAKE) --no-print-directory FUZZ=1 $@
endif

# Libraries and programs that tests break: what a GPU's own would be. Debug information would only make them large.
VICTIMS := $(addprefix $(BUILD)/victims/,libcuda.so.1 libcudart.so.12 static-gpu errno-program static-errno \
	operations registers stripped/libcuda.so.1 stripped/libcudart.so.12 static-stripped)
VICTIM_CFLAGS := -O2 -Wall -Wextra -Wno-missing-prototypes

$(BUILD)/victims/libcuda.so.1: tests/victims/cuda_driver.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) -fPIC -shared -Wl,-soname,libcuda.so.1 $< -o $@ -lpthread

$(BUILD)/victims/libcudart.so.12: tests/victims/cuda_runtime.c $(BUILD)/victims/libcuda.so.1
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) -fPIC -shared -Wl,-soname,libcudart.so.12 -Wl,-rpath,'$$ORIGIN' $^ -o $@

$(BUILD)/victims/errno-program: tests/victims/errno_program.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) $< -o $@ -lpthread

$(BUILD)/victims/static-errno: tests/victims/errno_program.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) -static $< -o $@ -lpthread

$(BUILD)/victims/operations: tests/victims/operations.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) -D_GNU_SOURCE $< -o $@ -lpthread

$(BUILD)/victims/registers: tests/victims/registers.c $(BUILD)/victims/libcudart.so.12 tests/checked_call.h
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) -Wl,-rpath,'$$ORIGIN' -Wl,-rpath-link,$(@D) $(filter-out %.h,$^) -o $@ -lpthread

$(BUILD)/victims/stripped/%: $(BUILD)/victims/%
	@mkdir -p $(@D)
	$(call msg,STRIP,$@)strip -s $< -o $@

$(BUILD)/victims/static-stripped: $(BUILD)/victims/static-gpu
	$(call msg,STRIP,$@)strip -s $< -o $@

$(BUILD)/victims/static-gpu: tests/victims/static_program.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)$(CC) $(VICTIM_CFLAGS) $< -o $@ -lpthread

victims: $(VICTIMS)

vmtest: $(PROGRAM) $(VICTIMS) $(ASSIST_TESTS)
	$(Q)vmtest/run.sh $(if $(KERNEL),--kernel '$(KERNEL)') $(if $(CASE),--case '$(CASE)') $(if $(PROVEN),--proven)

bench: $(PROGRAM)
	$(Q)[ ! -e tests/bench/run.sh ] || CHAOSBPF=$(abspath $(PROGRAM)) tests/bench/run.sh

demo:
	$(Q)tools/demo

# Real servers and clients are there only in a guest (vmtest/real.sh).
demo-ai: $(PROGRAM)
	$(Q)vmtest/run.sh --kernel $(or $(KERNEL),6.1) --real --timeout 300 --exec 'exec python3 /chaos/tools/demo-ai-scenes.py'

test:
	$(Q)tools/test-all

# ---- install

install: $(PROGRAM)
	$(INSTALL) -D -m 755 $(PROGRAM) $(DESTDIR)$(bindir)/chaosbpf
	$(INSTALL) -D -m 644 man/chaosbpf.8 $(DESTDIR)$(mandir)/man8/chaosbpf.8
	$(INSTALL) -D -m 644 tools/completion/chaosbpf.bash $(DESTDIR)$(datadir)/bash-completion/completions/chaosbpf
	$(INSTALL) -D -m 644 tools/completion/_chaosbpf $(DESTDIR)$(datadir)/zsh/site-functions/_chaosbpf
	$(INSTALL) -d $(DESTDIR)$(datadir)/chaosbpf/rules
	$(INSTALL) -m 644 $(wildcard rules/*.yaml) $(DESTDIR)$(datadir)/chaosbpf/rules
	$(INSTALL) -d $(DESTDIR)$(datadir)/chaosbpf/rules/experiments
	$(INSTALL) -m 644 $(wildcard rules/experiments/*.yaml) $(DESTDIR)$(datadir)/chaosbpf/rules/experiments
	$(INSTALL) -m 644 rules/presets/endpoints.yaml $(DESTDIR)$(datadir)/chaosbpf/endpoints.yaml

uninstall:
	rm -f $(DESTDIR)$(bindir)/chaosbpf $(DESTDIR)$(mandir)/man8/chaosbpf.8
	rm -f $(DESTDIR)$(datadir)/bash-completion/completions/chaosbpf $(DESTDIR)$(datadir)/zsh/site-functions/_chaosbpf
	rm -rf $(DESTDIR)$(datadir)/chaosbpf

clean:
	rm -rf build build-san build-fuzz

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
