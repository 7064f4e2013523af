#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The build root: a Debian 13 tree that holds the toolchain and is also the
# guest's root file system. Prints its path on the last line.
#
# MRX_MIRROR  a Debian mirror; default: the one this machine's apt uses, else
#             the one built into mmdebstrap

. "$(dirname "$0")/lib.sh"

SUITE=trixie
packages=$(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$MRX_TOP/scripts/buildroot.packages" | paste -sd,)
root=$MRX_CACHE/buildroot-$(key "$SUITE" "$packages")

host_mirror() {
	[ -z "${MRX_MIRROR:-}" ] || { echo "$MRX_MIRROR"; return; }
	command -v apt-get >/dev/null || return 0
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' \
		2>/dev/null | head -n 1
}

install_mmdebstrap() {
	command -v mmdebstrap >/dev/null && return
	command -v apt-get >/dev/null || die "mmdebstrap is missing and there is no apt-get to install it with"
	apt-get update -qq || die "apt-get update failed: is there a network?"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq mmdebstrap debian-archive-keyring ||
		die "apt-get could not install mmdebstrap"
}

# The backports line is derived from whatever mirror mmdebstrap wrote down.
backports_hook='sed -n "s/ '$SUITE' main.*/ '$SUITE'-backports main/p" "$1/etc/apt/sources.list" |
	head -n 1 >"$1/etc/apt/sources.list.d/backports.list"'

bootstrap() {
	local tmp=$root.tmp
	rm -rf "$tmp"
	# shellcheck disable=SC2046 # no mirror, no argument
	mmdebstrap --variant=apt --mode=root --include="$packages" \
		--aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "5"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--setup-hook="$backports_hook" "$SUITE" "$tmp" $(host_mirror)
	mv "$tmp" "$root"
}

make_root() {
	[ ! -d "$root" ] || return 0
	need_root
	need_space "$MRX_CACHE" 8000 "the build root"
	command -v mmdebstrap >/dev/null || timed "Install mmdebstrap" install_mmdebstrap
	timed "Make the build root (Debian 13, about 3 GB, 3 to 6 minutes)" bootstrap
}

[ -d "$root" ] || with_lock buildroot make_root >&2
echo "$root"
