"""The lab: a host with real sshd, tmux and LXC containers on one machine, for tests and by hand.

    with Lab.start() as lab:                      # tests.lab.lab; in tests: the fixture `lab`
        lab.host.ssh("pct exec 200 -- hostname")  # the real ssh client, the pct stand-in
        lab["200"].run(["tmux", "ls"])            # past ssh and pct: what is really there
        lab.inventory_yaml() + "jobs: ..."        # an inventory for this lab

The host is a process tree in namespaces of its own (mount, cgroup, uts, and net on demand) over
the machine's root as an overlay: it has its own /root, /etc/pve, /usr/sbin/pct and cgroup root,
so its container 200 really is /lxc.payload.200 there, whatever other labs run. Nothing of it
changes a file of the machine. All its processes are in one cgroup, by which they are ended.
Only the kernel log is the machine's: there a container's cgroup has the lab's before it.

What is a stand-in: `pct` (nothing but Proxmox has it) and `nvidia-smi` (there is no GPU). The
rest is real: sshd, tmux, LXC, namespaces, OOM kills, the cable that is cut.
"""
