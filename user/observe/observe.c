// SPDX-License-Identifier: GPL-2.0-only
/* The life of the programs that measure: load, attach, find what is open already, read, end. */
#include "user/observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "observe.skel.h"
#include "user/engine/attach.h"
#include "user/engine/seed.h"
#include "user/observe/observe_filter.h"

#define MAX_LINKS     16
#define FILEID_KERNFS 0xfe /* of a file handle: that of cgroup file systems holds the cgroup's id */

/* A cgroup's path, kept since cgroups go. */
struct cgroup_name {
	uint64_t id;
	char *path;
};

struct observe {
	struct observe_bpf *skel;
	struct observe_filter filter;
	struct bpf_link *links[MAX_LINKS];
	size_t links_count;
	const struct observe_row *rows; /* the kernel's, mapped */
	size_t mapped;
	int cgroup_fd; /* of the mount */
	struct cgroup_name *names;
	size_t names_count;
};

static int cannot(const struct features *f, enum feature feature, struct error *err)
{
	return error_set(err, -EOPNOTSUPP, EXIT_CANNOT, "nothing can be measured here: %s: %s", feature_names[feature],
			 f->why_not[feature]);
}

static int check_features(const struct features *f, struct error *err)
{
	const enum feature needed[] = { FEATURE_BPF, FEATURE_BTF, FEATURE_CGROUP2 };

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!f->has[needed[i]])
			return cannot(f, needed[i], err);
	}
	return 0;
}

static void set_up(struct observe *o, const struct features *f, const struct observe_options *options)
{
	const uint32_t rows = options->rows ? options->rows : OBSERVE_ROWS;
	struct observe_knobs knobs = {
		.rows = rows,
		.leader_comm = feature_leader_comm(),
		.socket_error = f->has[FEATURE_SOCKET_ERROR],
		.get_retval = f->has[FEATURE_SET_RETVAL], /* both came at once */
	};
	const bool follows_pids = o->filter.target && o->filter.target->by_pid && f->has[FEATURE_FORK_HOOK];

	filter_set_knobs(&o->filter, options, &knobs);
	filter_size_maps(&o->filter, o->skel);
	memcpy((void *)&o->skel->rodata->knobs, &knobs, sizeof(knobs));
	bpf_map__set_max_entries(o->skel->maps.chaos_obs_rows, rows);
	bpf_map__set_max_entries(o->skel->maps.chaos_obs_keys, rows);
	bpf_program__set_autoload(o->skel->progs.chaos_obs_fork, follows_pids);
	bpf_program__set_autoload(o->skel->progs.chaos_obs_exit, follows_pids);
}

static int map_rows(struct observe *o, struct error *err)
{
	const struct bpf_map *map = o->skel->maps.chaos_obs_rows;
	void *rows;

	o->mapped = (size_t)bpf_map__max_entries(map) * sizeof(struct observe_row);
	rows = mmap(NULL, o->mapped, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
	if (rows == MAP_FAILED)
		return error_set(err, -errno, EXIT_FAILED, "cannot map what is measured: %s", strerror(errno));
	o->rows = rows;
	return 0;
}

static int attach_all(struct observe *o, struct error *err)
{
	struct bpf_program *prog;
	struct bpf_link *link;

	bpf_object__for_each_program (prog, o->skel->obj) {
		if (!bpf_program__autoload(prog))
			continue;
		link = attach_program(prog, o->cgroup_fd, err);
		if (!link)
			return -errno;
		o->links[o->links_count++] = link;
	}
	return 0;
}

/* ---- sockets that are open already ---------------------------------------------------------------------------------- */

static unsigned int is_wanted(const struct process *process, void *arg)
{
	const struct observe *o = arg;

	return filter_wants(&o->filter, process);
}

static bool write_socket(const struct seed_socket *found, void *arg)
{
	const struct observe *o = arg;
	const int map = bpf_map__fd(o->skel->maps.chaos_obs_sock);
	struct observe_sock state = { 0 };

	if (!found->stream || (bpf_map_lookup_elem(map, &found->fd, &state) == 0 && state.known))
		return false;
	state.known = 1;
	state.wanted = is_wanted(found->process, arg);
	state.side = found->side;
	state.cgroup_id = found->process->cgroup_id;
	memcpy(state.comm, found->process->comm, sizeof(state.comm));
	return bpf_map_update_elem(map, &found->fd, &state, BPF_ANY) == 0;
}

/* Until here packets of sockets that nobody knows are let by unseen; from now on they say themselves whose they are. */
static int begin_unknown(struct observe *o, struct error *err)
{
	const int map = bpf_map__fd(o->skel->maps.chaos_obs_ready);
	const uint32_t zero = 0, yes = 1;

	if (bpf_map_update_elem(map, &zero, &yes, BPF_ANY))
		return error_set(err, -errno, EXIT_FAILED, "cannot begin to measure: %s", strerror(errno));
	return 0;
}

static int find_sockets(struct observe *o, const struct features *f, struct error *err)
{
	const struct seed seed = { .named = is_wanted, .write = write_socket, .arg = o };
	struct process_list processes;
	size_t count;
	int ret = process_list(f->cgroup2_mount, &processes, err);

	if (ret)
		return ret;
	ret = filter_add_children(&o->filter, o->skel, &processes, err);
	if (!ret && f->has[FEATURE_PIDFD_GETFD])
		ret = seed_each(&seed, &processes, -1, &count, err);
	process_list_free(&processes);
	return ret;
}

/* ---- open, close ------------------------------------------------------------------------------------------------------ */

static int open_all(struct observe *o, const struct features *f, const struct observe_options *options,
		    struct error *err)
{
	int ret = filter_resolve(&o->filter, options, f, err);

	if (ret)
		return ret;
	o->cgroup_fd = open(f->cgroup2_mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->cgroup_fd < 0)
		return error_set(err, -errno, EXIT_FAILED, "cannot open %s: %s", f->cgroup2_mount, strerror(errno));
	o->skel = observe_bpf__open();
	if (!o->skel)
		return attach_explain_load(-errno, err);
	set_up(o, f, options);
	ret = observe_bpf__load(o->skel);
	if (ret)
		return attach_explain_load(ret, err);
	ret = filter_fill_maps(&o->filter, o->skel, err);
	ret = ret ?: map_rows(o, err);
	ret = ret ?: attach_all(o, err);
	ret = ret ?: find_sockets(o, f, err);
	return ret ?: begin_unknown(o, err);
}

int observe_open(const struct features *features, const struct observe_options *options, struct observe **observe,
		 struct error *err)
{
	struct observe *o;
	int ret = check_features(features, err);

	*observe = NULL;
	if (ret)
		return ret;
	o = calloc(1, sizeof(*o));
	if (!o)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	o->cgroup_fd = -1;
	ret = open_all(o, features, options, err);
	if (ret)
		observe_close(o);
	else
		*observe = o;
	return ret;
}

void observe_close(struct observe *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->links_count; i++)
		bpf_link__destroy(o->links[i]);
	if (o->rows)
		munmap((void *)o->rows, o->mapped);
	observe_bpf__destroy(o->skel);
	filter_free(&o->filter);
	if (o->cgroup_fd >= 0)
		close(o->cgroup_fd);
	for (size_t i = 0; i < o->names_count; i++)
		free(o->names[i].path);
	free(o->names);
	free(o);
}

int observe_follow(struct observe *o, struct error *err)
{
	return filter_follow(&o->filter, o->skel, err);
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

int observe_read(const struct observe *o, struct observe_table *table)
{
	struct observe_state state = { 0 };
	const uint32_t zero = 0;
	struct timespec t;

	*table = (struct observe_table){ 0 };
	bpf_map_lookup_elem(bpf_map__fd(o->skel->maps.chaos_obs_state), &zero, &state);
	table->rows = calloc(state.rows + 1, sizeof(*table->rows));
	if (!table->rows)
		return -ENOMEM;
	table->count = state.rows + 1;
	clock_gettime(CLOCK_MONOTONIC, &t);
	table->at_ns = (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
	memcpy(table->rows, o->rows, table->count * sizeof(*table->rows));
	return 0;
}

/* A path by the cgroup's id: the file system's handle of it is that. */
static char *read_path(const struct observe *o, uint64_t id)
{
	struct {
		struct file_handle head;
		uint64_t id;
	} handle = { .head = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	char link[64], path[4096], mount[4096];
	ssize_t len, mount_len;
	int fd;

	memcpy(handle.head.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(o->cgroup_fd, &handle.head, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	close(fd);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", o->cgroup_fd);
	mount_len = readlink(link, mount, sizeof(mount) - 1);
	if (len < mount_len || mount_len < 0 || memcmp(path, mount, (size_t)mount_len) != 0)
		return NULL;
	path[len] = '\0';
	return strdup(len == mount_len ? "/" : path + mount_len + 1);
}

const char *observe_cgroup(struct observe *o, uint64_t id)
{
	struct cgroup_name *more;
	char *path;

	for (size_t i = 0; i < o->names_count; i++) {
		if (o->names[i].id == id)
			return o->names[i].path;
	}
	path = id ? read_path(o, id) : NULL;
	if (!path)
		return "";
	more = realloc(o->names, (o->names_count + 1) * sizeof(*more));
	if (!more) {
		free(path);
		return "";
	}
	o->names = more;
	o->names[o->names_count++] = (struct cgroup_name){ .id = id, .path = path };
	return path;
}
