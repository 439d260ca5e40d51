/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which rules name the path of a file: the path as the calling process sees it, from its own root, however it came to the
 * file. There is bpf_d_path(), but not in most of the hooks, and what it makes would have to be taken apart again.
 *
 *	climb      from the file to the root, over mount points, each part noted
 *	descend    from the root towards the file in the tree of the rules' paths (chaos_paths), until that ends
 *
 * Most files are done after the first part of their path, since no rule names it. Nothing is locked: a directory that is
 * being renamed may be missed once.
 */
#ifndef PATH_BPF_H
#define PATH_BPF_H

#include "bpf/core.bpf.h"

#define MAX_CLIMB 128 /* parts and mount points of a path; a file further down has none */

/*
 * One for each program on each CPU. Another thread may come in between, but then the kernel leaves out the same program
 * (5.12 on; before, nothing of Debian's is preempted in a program).
 */
MAP(BPF_MAP_TYPE_PERCPU_ARRAY, chaos_walks, __u32, struct chaos_walk, CHAOS_WALKS);
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct chaos_part_key);
	__type(value, struct chaos_part);
} chaos_paths __weak SEC(".maps");

static always struct mount *mount_of(struct vfsmount *mnt)
{
	return (void *)((char *)mnt - bpf_core_field_offset(struct mount, mnt));
}

/* A file that no directory holds (a pipe, memory) has its own small mount, which is in no namespace. */
static always bool is_visible(struct mount *mount)
{
	__s64 ns = (__s64)BPF_CORE_READ(mount, mnt_ns);

	return ns < -4095 || ns > 0;
}

static always void climb(struct chaos_walk *walk, struct dentry *dentry, struct vfsmount *mnt)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct dentry *root = BPF_CORE_READ(task, fs, root.dentry), *parent;
	struct vfsmount *root_mnt = BPF_CORE_READ(task, fs, root.mnt);

	walk->count = 0;
	walk->whole = 0;
	for (int i = 0; i < MAX_CLIMB; i++) {
		if (dentry == root && mnt == root_mnt) {
			walk->whole = 1;
			return;
		}
		parent = BPF_CORE_READ(dentry, d_parent);
		if (dentry == parent || dentry == BPF_CORE_READ(mnt, mnt_root)) {
			struct mount *mount = mount_of(mnt), *above = BPF_CORE_READ(mount, mnt_parent);

			if (above == mount) {
				walk->whole = is_visible(mount);
				return;
			}
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mnt = __builtin_preserve_access_index(&above->mnt);
			continue;
		}
		/* Counted in memory: the verifier would follow each number of parts by itself. */
		walk->dentry[walk->count % CHAOS_WALK_PARTS] = (__u64)dentry;
		walk->count++;
		dentry = parent;
	}
}

static always void name_of(struct dentry *dentry, void *name, __u32 size)
{
	bpf_probe_read_kernel_str(name, size, BPF_CORE_READ(dentry, d_name.name));
}

/* The set of rules for the path, those that name none included. */
static always __u32 descend(struct chaos_walk *walk)
{
	__u32 set = knobs.below_root, node = CHAOS_PART_ROOT, left = walk->count;

	if (!walk->whole || !left)
		return knobs.pathless;
	for (__u32 i = 0; i < CHAOS_MAX_PARTS; i++) {
		struct chaos_part *part;

		walk->key.prefix_len = 8 * (sizeof(walk->key) - sizeof(walk->key.prefix_len));
		walk->key.node = node;
		name_of((void *)walk->dentry[(left - 1) % CHAOS_WALK_PARTS], walk->key.name, sizeof(walk->key.name));
		part = bpf_map_lookup_elem(&chaos_paths, &walk->key);
		if (!part)
			break;
		if (left == 1)
			return part->ends;
		set = part->below;
		node = part->node;
		if (!node)
			break;
		left--;
	}
	return set;
}

/*
 * The set of rules for a file. A global function of numbers only: the verifier looks at it by itself, and does not follow
 * everything that its caller holds through each round of the loops (on 7.3 that took a minute in an emulator).
 */
__noinline __attribute__((weak)) int chaos_path_set(__u32 number, __u64 dentry, __u64 mnt)
{
	struct chaos_walk *walk;

	if (!knobs.paths)
		return 0;
	walk = bpf_map_lookup_elem(&chaos_walks, &number);
	if (!walk)
		return knobs.pathless;
	climb(walk, (void *)dentry, (void *)mnt);
	return descend(walk);
}

/* The rules for this file; `number` of the walk is the program's own. NULL: a set is missing, which does not happen. */
static always const struct chaos_vector *path_rules(__u32 number, __u64 dentry, __u64 mnt)
{
	__u32 set = dentry ? (__u32)chaos_path_set(number, dentry, mnt) : knobs.pathless;

	return bpf_map_lookup_elem(&chaos_sets, &set);
}

#endif
