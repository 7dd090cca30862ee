#!/bin/sh
# Becomes the root process of a lab's host: a mount namespace over the machine's own root.
# host_root.sh LAB_FOLDER NAME [FSTYPE OPTIONS MOUNTPOINT]...   (the cgroup hierarchies)
# Called inside fresh mount, cgroup and uts namespaces; prints "ready" and then only waits.
set -eu
lab=$1 name=$2
shift 2
root=$lab/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$lab/host/upper,workdir=$lab/host/work" "$root"
mkdir -p "$root/var/lib/orch-lab/machine" "$root/var/lib/orch-lab/lab" "$root/.machine"
mount --bind / "$root/var/lib/orch-lab/machine"
mount --bind "$lab" "$root/var/lib/orch-lab/lab"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
while [ $# -gt 0 ]; do
    mkdir -p "$root$3"
    mount -t "$1" ${2:+-o "$2"} cgroup "$root$3"
    shift 3
done
cd "$root"
pivot_root . .machine
umount -l /.machine
rmdir /.machine
hostname "$name"
mkdir -p /run/sshd /run/lock
if [ -e /sys/class/net/lo ]; then ip link set lo up; fi
echo ready
exec sleep infinity
