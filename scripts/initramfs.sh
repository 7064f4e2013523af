#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What QEMU is given to start a guest from, made once for each kernel. Usage:
#
#   scripts/initramfs.sh KERNEL_DIR
#
# KERNEL_DIR is a folder such as scripts/kernel.sh prints, inside the cache or
# the checkout. The modules that the kernel lacks for its root file system come
# along with a static busybox; once the root is mounted it runs
# /mrx/scripts/guest-init from there. Prints a folder of the cache that holds:
#   kernel     the kernel, uncompressed where it can start so: decompression
#              under emulation takes seconds
#   initramfs  the archive
#   release    the kernel's release, and
#   modules    its folder of modules, as the guest sees it

. "$(dirname "$0")/lib.sh"

# Mounting the root needs these; what they depend on follows from modules.dep,
# and a name that is not in it is built in.
MODULES=(virtio_pci virtio_console 9pnet_virtio 9p overlay)

# inside PATH: the same path in the build root and in the guest.
inside() {
	case $1 in
	"$MRX_CACHE_REAL"/*) echo "/cache${1#"$MRX_CACHE_REAL"}" ;;
	"$MRX_TOP_REAL"/*) echo "/mrx${1#"$MRX_TOP_REAL"}" ;;
	*) die "$1 is neither in the cache ($MRX_CACHE) nor in the checkout, so the guest cannot see it" ;;
	esac
}
MRX_CACHE_REAL=$(realpath "$MRX_CACHE")
MRX_TOP_REAL=$(realpath "$MRX_TOP")

[ $# -eq 1 ] || die "usage: scripts/initramfs.sh KERNEL_DIR"
KERNEL=$(realpath -e "$1")
ROOT=$("$MRX_TOP/scripts/buildroot.sh")

[ -r "$KERNEL/image" ] || die "$KERNEL/image: no kernel there"
[ -d "$KERNEL/modules" ] || die "$KERNEL/modules: no folder of modules there"
RELEASE=$(cat "$KERNEL/release")
MODULES_DIR=$(realpath -e "$KERNEL/modules")

# index: modules.dep and the other indices that depmod makes, which packages
# leave to their installation.
index() {
	[ ! -e "$MODULES_DIR/modules.dep" ] || return 0
	# shellcheck disable=SC2016 # expanded by the inner shell
	in_root "$ROOT" sh -c '
		for dir in lib usr/lib; do
			mkdir -p "/tmp/base/$dir/modules"
			ln -s "$1" "/tmp/base/$dir/modules/$2"
		done
		exec depmod -b /tmp/base "$2"' sh "$(inside "$MODULES_DIR")" "$RELEASE"
	[ -e "$MODULES_DIR/modules.dep" ] || die "depmod made no modules.dep in $MODULES_DIR"
}

# module_files: the files to load, each after those that it depends on.
module_files() {
	awk -v wanted="${MODULES[*]}" '
	function base(path) {
		sub(/.*\//, "", path)
		sub(/\.ko.*/, "", path)
		gsub(/-/, "_", path)
		return path
	}
	{
		sub(/:$/, "", $1)
		file[base($1)] = $1
		# modules.dep has the module needed first in the last place
		for (i = NF; i > 1; i--)
			needs[base($1)] = needs[base($1)] " " $i
	}
	END {
		count = split(wanted, names, " ")
		for (i = 1; i <= count; i++) {
			if (!(names[i] in file))
				continue
			total = split(needs[names[i]] " " file[names[i]], list, " ")
			for (j = 1; j <= total; j++)
				if (!seen[list[j]]++)
					print list[j]
		}
	}' "$MODULES_DIR/modules.dep"
}

# The first program of the guest. The kernel hands MRX_* of its command line to
# it as environment variables.
init_script() {
	cat <<'INIT'
#!/bin/busybox sh
set -e
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do
	insmod "/modules/$module"
done </modules/list
# What is only read is trusted to stay as it is while the guest runs. The
# checkout is not: one may build on the host beside an open shell.
share() { # TAG PATH DIR ro|rw CACHE
	if grep -qw hostfs /proc/filesystems; then
		mount -t hostfs -o "$4,$2" "$1" "$3"
	else
		mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$4,cache=$5" "$1" "$3"
	fi
}
share root / /lower ro loose
mount -t tmpfs -o mode=755 tmpfs /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work root /root
share mrx /mrx /root/mrx ro mmap
share build /mrx/build /root/mrx/build rw mmap
share cache /cache /root/cache ro loose
umount /proc
mount -o move /dev /root/dev
exec switch_root /root /mrx/scripts/guest-init
INIT
}

archive() { # DIR
	local tree=$1/tree file name
	mkdir -p "$tree"/{bin,dev,proc,root,lower,upper,modules}
	cp "$ROOT/bin/busybox" "$tree/bin/busybox"
	for name in sh grep mount umount mkdir insmod switch_root; do
		ln -s busybox "$tree/bin/$name"
	done
	module_files >"$1/files"
	while read -r file; do
		name=${file##*/}
		name=${name%%.ko*}.ko
		case $file in
		*.xz) in_root "$ROOT" xz -dc "$(inside "$MODULES_DIR")/$file" >"$tree/modules/$name" ;;
		*.zst) in_root "$ROOT" zstd -dcq "$(inside "$MODULES_DIR")/$file" >"$tree/modules/$name" ;;
		*.gz) gzip -dc "$MODULES_DIR/$file" >"$tree/modules/$name" ;;
		*) cp "$MODULES_DIR/$file" "$tree/modules/$name" ;;
		esac
		echo "$name" >>"$tree/modules/list"
	done <"$1/files"
	[ -e "$tree/modules/list" ] || : >"$tree/modules/list"
	init_script >"$tree/init"
	chmod +x "$tree/init"
	# shellcheck disable=SC2016 # expanded by the inner shell
	IN_ROOT_DIR=$(inside "$tree") in_root "$ROOT" sh -c \
		'find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet' >"$1/initramfs"
	rm -rf "$tree" "$1/files"
}

# A kernel with a PVH note starts from its ELF file; any other is left as it is.
uncompress() { # DIR
	if [ -e "$KERNEL/uml" ]; then
		cp "$KERNEL/image" "$1/kernel"
		chmod +x "$1/kernel"
		return
	fi
	# shellcheck disable=SC2016 # expanded by the inner shell
	if [ -x "$KERNEL/source/scripts/extract-vmlinux" ] &&
		in_root "$ROOT" "$(inside "$KERNEL")/source/scripts/extract-vmlinux" \
			"$(inside "$(realpath "$KERNEL/image")")" >"$1/vmlinux" 2>/dev/null &&
		IN_ROOT_DIR=$(inside "$1") in_root "$ROOT" sh -c 'readelf -n vmlinux | grep -qE "Xen .*(0x00000012|PHYS32)"'; then
		mv "$1/vmlinux" "$1/kernel"
	else
		rm -f "$1/vmlinux"
		cp "$KERNEL/image" "$1/kernel"
	fi
}

make_start() {
	[ ! -d "$start" ] || return 0
	need_root
	# what it replaces goes: nothing reads it once its guest has started
	rm -rf "$MRX_CACHE_REAL/$made_from"-*
	mkdir -p "$start.tmp"
	uncompress "$start.tmp"
	archive "$start.tmp"
	echo "$RELEASE" >"$start.tmp/release"
	inside "$MODULES_DIR" >"$start.tmp/modules"
	mv "$start.tmp" "$start"
}

[ -e "$MODULES_DIR/modules.dep" ] || with_lock depmod index >&2
made_from=start-$RELEASE-$(key "$KERNEL" "$ROOT")
start=$MRX_CACHE_REAL/$made_from-$(key "$(sha256sum <"$0")" \
	"$(stat -Lc '%Y %s' "$KERNEL/image" "$MODULES_DIR/modules.dep")")
[ -d "$start" ] || with_lock start make_start >&2
echo "$start"
