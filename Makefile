# SPDX-License-Identifier: GPL-2.0
#
# `make demo` and `make check` do all of their own set-up. `make help` lists
# the rest.

ifneq ($(KERNELRELEASE),)
# Read by Kbuild: everything is in Kbuild.
include $(src)/Kbuild
else

.DEFAULT_GOAL := help

.PHONY: demo check check-host check-debug soak bench shell module modules install clean distclean help

demo: ## show two processes moving bytes through a non-contiguous region
	@scripts/demo.sh

check: ## host tests, then the self-tests on Debian's kernel in a virtual machine
	@scripts/check.sh

check-host: ## only what needs no virtual machine
	@scripts/check.sh --host-only

check-debug: ## all self-tests in a debug kernel, under its detectors and with failing memory (hours)
	@scripts/check-debug.sh

soak: ## the heavy tests in the debug kernel for MRX_SOAK_MINUTES=60, and a report
	@scripts/soak.sh

bench: ## measure against rdma_rxe and the machine's limits
	@scripts/bench.sh

shell: ## a shell in the virtual machine, with the module loaded and a link up
	@scripts/shell.sh

ifdef KDIR
module: ## build ib_mrx.ko for Debian's kernel, or for the build KDIR=...
	@scripts/kdir.sh "$(KDIR)"
	+$(MAKE) -C "$(KDIR)" M="$(CURDIR)" MO="$(CURDIR)/build/kdir" modules
else
module: ## build ib_mrx.ko for Debian's kernel, or for the build KDIR=...
	@scripts/module.sh
endif

modules: module

install: ## build the library and install it with its headers and manual pages: PREFIX=/usr/local DESTDIR=
	@scripts/userspace.sh build --release --package mrx
	@PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" DESTDIR="$(DESTDIR)" scripts/install.sh

clean: ## remove what was built in this checkout
	rm -rf build

distclean: clean ## remove the cache as well: build root, kernel, crates
	@scripts/distclean.sh

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | sort -u | column -t -s '|'

endif
