// SPDX-License-Identifier: GPL-2.0-only
#include "user/inside/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "user/base/clock.h"
#include "user/base/log.h"
#include "user/base/vector.h"
#include "user/inside/elf_file.h"
#include "user/inside/errno_place.h"
#include "user/inside/gpu_functions.h"
#include "user/inside/tls_functions.h"

#define PENDING_NS 5000000000ULL /* for so long a busy assist may leave a call undone */

/* What the linker would take for them; versions are those of CUDA 11 to 13 and ROCm 5 to 7. */
static const char *const gpu_libraries[] = { "libcuda.so.1",      "libcudart.so.13",  "libcudart.so.12",
					     "libcudart.so.11.0", "libamdhip64.so.7", "libamdhip64.so.6",
					     "libamdhip64.so.5" };

bool probes_needed(const struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rule_has_probes(&rules->rules[i]))
			return true;
	}
	return false;
}

static bool needs_assist(const struct rule *rule, const struct features *features)
{
	return rule->fault.faults & FAULTS_BY_PROBE &&
	       (!features->has[FEATURE_PROBE_REGISTERS] || rule_needs_assist(rule));
}

bool probes_need_assist(const struct rules *rules, const struct features *features)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (needs_assist(&rules->rules[i], features))
			return true;
	}
	return false;
}

/* ---- whose files ------------------------------------------------------------------------------------------------- */

/* By some rule with probes, or by one that the assist serves? */
static bool is_named(const struct probes *p, const struct process *process, bool assisted)
{
	struct chaos_vector rules;

	if (strncmp(process->comm, "chaosbpf", sizeof(process->comm)) == 0)
		return false;
	tables_process_rules(p->tables, process, &rules);
	for (size_t i = 0; i < p->rules->count; i++) {
		const struct rule *rule = &p->rules->rules[i];

		if (has_rule(&rules, i) && rule_has_probes(rule) && (!assisted || needs_assist(rule, p->features)))
			return true;
	}
	return false;
}

/* Those processes, ascending. The caller's to free. */
static int named_pids(const struct probes *p, const struct process_list *processes, bool assisted, uint32_t **pids,
		      size_t *count)
{
	*count = 0;
	*pids = malloc((processes->count + 1) * sizeof(**pids));
	if (!*pids)
		return -ENOMEM;
	for (size_t i = 0; i < processes->count; i++) {
		if (is_named(p, &processes->entries[i], assisted))
			(*pids)[(*count)++] = processes->entries[i].pid;
	}
	return 0;
}

/* ---- the functions of one file ----------------------------------------------------------------------------------- */

struct site {
	struct chaos_point point;
	uint64_t offset;
	enum probe_family family;
	bool returns; /* its return is waited for */
	struct chaos_vector rules;
};

struct sites {
	struct site list[GPU_MAX_FUNCTIONS + TLS_FUNCTIONS + CHAOS_MAX_RULES];
	size_t count;
};

/* Several rules may mean the same function, under whatever name. */
static struct site *site_at(struct sites *sites, const struct elf_function *found, const char *name,
			    enum probe_family family)
{
	struct site *site;

	for (size_t i = 0; i < sites->count; i++) {
		if (sites->list[i].offset == found->offset && sites->list[i].family == family)
			return &sites->list[i];
	}
	site = &sites->list[sites->count++];
	memset(site, 0, sizeof(*site));
	site->offset = found->offset;
	site->family = family;
	site->point.ret = found->ret;
	snprintf(site->point.function, sizeof(site->point.function), "%s", name);
	return site;
}

static void describe_gpu(struct chaos_point *point, const struct gpu_function *f)
{
	static const uint8_t roles[] = {
		[GPU_ALLOCATE] = CHAOS_ROLE_ALLOCATE,
		[GPU_FREE] = CHAOS_ROLE_FREE,
		[GPU_INFO] = CHAOS_ROLE_INFO,
		[GPU_LAST_ERROR] = CHAOS_ROLE_GET_ERROR,
		[GPU_PEEK_ERROR] = CHAOS_ROLE_PEEK_ERROR,
	};
	static const uint8_t apis[] = {
		[GPU_RUNTIME] = CHAOS_GPU_RUNTIME, [GPU_DRIVER] = CHAOS_GPU_DRIVER, [GPU_HIP] = CHAOS_GPU_HIP
	};

	point->role = roles[f->role];
	point->api = apis[f->api];
	point->size_bits = f->size_is_32bit ? 32 : 64;
	point->device = f->role == GPU_ALLOCATE && f->memory == GPU_DEVICE && !f->pointer_is_32bit;
	point->extent = f->size == GPU_SIZE_EXTENT;
	if (f->size == GPU_SIZE_ONE || f->size == GPU_SIZE_RECT)
		point->size_args[0] = f->size_arg + 1;
	if (f->size == GPU_SIZE_RECT)
		point->size_args[1] = f->size_arg + 2;
	if (f->role == GPU_FREE)
		point->freed_arg = f->pointer_arg + 1;
	else if (f->pointer_arg != GPU_NO_ARG)
		point->out_arg = f->pointer_arg + 1;
}

/* Frees and questions for free memory matter where a process has a limit only. */
static bool is_wanted(const struct probes *p, const struct gpu_function *f)
{
	if (f->role == GPU_FREE || f->role == GPU_INFO)
		return p->tables->knobs.ceiling;
	return true;
}

static int find_gpu(struct probes *p, struct elf_file *elf, const struct library *library, struct sites *sites,
		    struct error *err)
{
	struct elf_function found[GPU_MAX_FUNCTIONS];
	const char *slash = strrchr(library->path, '/');
	int ret;

	if (!(p->tables->knobs.faults & 1 << CHAOS_GPU_OOM) ||
	    !gpu_file_apis(elf, slash ? slash + 1 : library->path, library->is_program))
		return 0;
	ret = gpu_file_functions(elf, found, err);
	if (ret < 0)
		return ret;
	for (size_t f = 0; f < gpu_function_count; f++) {
		struct site *site;

		if (found[f].problem != ELF_FOUND || !found[f].ret || !is_wanted(p, &gpu_functions[f]))
			continue;
		site = site_at(sites, &found[f], gpu_functions[f].name, PROBE_CALL);
		describe_gpu(&site->point, &gpu_functions[f]);
		site->returns = gpu_functions[f].role == GPU_ALLOCATE || gpu_functions[f].role == GPU_INFO;
		for (size_t i = 0; i < p->rules->count; i++) {
			if (!(p->rules->rules[i].fault.faults & 1 << CHAOS_GPU_OOM))
				continue;
			set_bit(&site->rules, i);
			p->met[i] = true;
		}
	}
	return 0;
}

/*
 * Where a function of this file sets errno: by an __errno_location of the file's own (of libc itself, and of static
 * programs), or by that of the C library beside it, for which a process that has the file open must do as an example.
 */
static int find_errno(const struct probes *p, size_t rule, struct elf_file *elf, const struct library *library,
		      const struct elf_function *function, int64_t *from_function, struct error *err)
{
	static const char *const name[] = { "__errno_location" };
	struct elf_function found;
	struct error ignored;
	int64_t offset;
	int ret;

	*from_function = 0;
	if (elf_file_find(elf, name, 1, &found, &ignored) == 0 && found.problem == ELF_FOUND) {
		*from_function = (int64_t)(found.address - function->address);
		return 0;
	}
	ret = library->pid ? errno_place(library->pid, 0, &offset) : 0;
	if (ret != -ENOENT && ret != -ENOTUNIQ && ret != -EOPNOTSUPP)
		return 0;
	rules_error_at(p->rules, p->rules->rules[rule].fault.mark, err, EXIT_CANNOT,
		       ret == -ENOTUNIQ ? "process %u has several C libraries, with an errno each"
					: "where process %u keeps its errno cannot be told",
		       library->pid);
	error_hint(err, "errno is known of glibc and musl on x86-64, and of static programs with their symbols");
	return ret;
}

static int find_calls(struct probes *p, struct elf_file *elf, const struct library *library, struct sites *sites,
		      struct error *err)
{
	for (size_t i = 0; i < p->rules->count; i++) {
		const struct fault *fault = &p->rules->rules[i].fault;
		struct elf_function found;
		int64_t errno_function = 0;
		struct site *site;
		struct error why;
		int ret;

		if (!(fault->faults & 1 << CHAOS_CALL) || !library_is(library, fault->call_library.text))
			continue;
		ret = elf_file_function(elf, fault->call_function.text, &found, &why);
		if (!ret && !found.ret)
			ret = error_set(&why, -EOPNOTSUPP, EXIT_CANNOT, "no return instruction in %s", library->path);
		if (ret) {
			rules_error_at(p->rules, fault->call_function.mark, err,
				       ret == -EOPNOTSUPP ? EXIT_CANNOT : EXIT_USAGE, "%s", why.text);
			if (why.hint[0])
				error_hint(err, "%s", why.hint);
			return ret;
		}
		ret = fault->error ? find_errno(p, i, elf, library, &found, &errno_function, err) : 0;
		if (ret)
			return ret;
		site = site_at(sites, &found, fault->call_function.text, PROBE_CALL);
		set_bit(&site->rules, i);
		if (errno_function)
			site->point.errno_function = errno_function;
		p->met[i] = true;
	}
	return 0;
}

/* The functions by which requests and answers inside TLS pass. */
static int find_tls(struct probes *p, struct elf_file *elf, const struct library *library, struct sites *sites,
		    struct error *err)
{
	struct elf_function found[TLS_FUNCTIONS];
	int ret = 0;

	if (p->tables->knobs.tls && p->features->has[FEATURE_PROBE])
		ret = tls_file_functions(elf, library->is_program, found, err);
	if (ret <= 0)
		return ret;
	for (size_t f = 0; f < TLS_FUNCTIONS; f++) {
		struct site *site;

		if (found[f].problem != ELF_FOUND)
			continue;
		site = site_at(sites, &found[f], tls_functions[f].name, PROBE_TLS);
		site->point.role = tls_functions[f].role;
		site->returns = tls_functions[f].returns;
		for (size_t i = 0; i < p->rules->count; i++) {
			if (!p->rules->rules[i].match.http.given)
				continue;
			set_bit(&site->rules, i);
			p->met[i] = true;
		}
	}
	return 0;
}

/* ---- attaching ---------------------------------------------------------------------------------------------------- */

static int keep_link(struct probes *p, struct bpf_link *link)
{
	struct bpf_link **links = realloc(p->links, (p->links_count + 1) * sizeof(*links));
	char path[128];

	if (!links) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	p->links = links;
	p->links[p->links_count] = link;
	/* Where probes are no links (before 5.15), they live with whoever serves the load. */
	if (p->pin_dir && p->features->has[FEATURE_PROBE_COOKIE]) {
		snprintf(path, sizeof(path), "%s/probe_%zu", p->pin_dir, p->links_count);
		if (bpf_link__pin(link, path)) {
			int err = -errno;

			bpf_link__destroy(link);
			return err;
		}
	}
	p->links_count++;
	return 0;
}

/* All functions of a file in one link for each of the programs. */
static int attach_multi(struct probes *p, const struct library *library, const struct sites *sites, uint32_t first,
			enum probe_family family, bool leave)
{
	unsigned long offsets[sizeof(sites->list) / sizeof(sites->list[0])];
	__u64 cookies[sizeof(offsets) / sizeof(offsets[0])];
	LIBBPF_OPTS(bpf_uprobe_multi_opts, opts, .offsets = offsets, .cookies = cookies, .retprobe = leave);
	struct bpf_link *link;

	for (size_t i = 0; i < sites->count; i++) {
		if (sites->list[i].family != family || (leave && !sites->list[i].returns))
			continue;
		offsets[opts.cnt] = sites->list[i].offset;
		cookies[opts.cnt++] = first + i;
	}
	if (!opts.cnt)
		return 0;
	link = bpf_program__attach_uprobe_multi(engine_probe(p->engine, NULL, family, leave), -1, library->attach_path,
						NULL, &opts);
	return link ? keep_link(p, link) : -errno;
}

static int attach_one(struct probes *p, const struct library *library, const struct site *site, uint32_t number,
		      struct chaos *copy, bool leave)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = leave,
		    .bpf_cookie = p->features->has[FEATURE_PROBE_COOKIE] ? number : 0);
	struct bpf_link *link;

	link = bpf_program__attach_uprobe_opts(engine_probe(p->engine, copy, site->family, leave), -1,
					       library->attach_path, site->offset, &opts);
	return link ? keep_link(p, link) : -errno;
}

static int attach_each(struct probes *p, const struct library *library, const struct sites *sites, uint32_t first,
		       struct error *err)
{
	for (size_t i = 0; i < sites->count; i++) {
		const struct site *site = &sites->list[i];
		struct chaos *copy = NULL;
		int ret = 0;

		if (!p->features->has[FEATURE_PROBE_COOKIE])
			ret = engine_copy_for(p->engine, &p->copies, site->offset, first + i, &copy, err);
		/* The return first: a call must not be begun that nobody waits for. */
		if (!ret && site->returns)
			ret = attach_one(p, library, site, first + i, copy, true);
		ret = ret ?: attach_one(p, library, site, first + i, copy, false);
		if (ret)
			return ret;
	}
	return 0;
}

static int write_points(struct probes *p, const struct library *library, struct sites *sites)
{
	struct chaos_file file = { .functions = sites->count };
	size_t len = strlen(library->path), over = len >= sizeof(file.path) ? len - sizeof(file.path) + 1 : 0;
	int ret;

	if (p->points + sites->count > CHAOS_MAX_POINTS || p->files >= CHAOS_MAX_FILES)
		return -E2BIG;
	snprintf(file.path, sizeof(file.path), "%s", library->path + over);
	for (size_t i = 0; i < sites->count; i++) {
		struct site *site = &sites->list[i];

		site->point.file = p->files;
		ret = engine_put_set(p->engine, p->tables, &site->rules, &site->point.set);
		ret = ret ?: engine_put_point(p->engine, p->points + i, &site->point);
		if (ret)
			return ret;
	}
	return engine_put_file(p->engine, p->files, &file);
}

/* A file that only TLS is read in: what cannot be read is left alone and counted, as other libraries are. */
static bool is_optional(const struct sites *sites)
{
	for (size_t i = 0; i < sites->count; i++) {
		if (sites->list[i].family != PROBE_TLS)
			return false;
	}
	return true;
}

static void note_unread(const struct library *library, const char *why)
{
	log_note("connections inside TLS are not read where %s is used: %s", library->path, why);
}

static const char *why_not(int error)
{
	return error == -E2BIG ? "there are too many files with such functions" : strerror(-error);
}

static int attach_file(struct probes *p, const struct library *library, struct sites *sites, uint32_t first,
		       struct error *err)
{
	int ret = 0;

	if (!p->features->has[FEATURE_PROBE_MULTI])
		return attach_each(p, library, sites, first, err);
	for (enum probe_family family = 0; family < PROBE_FAMILY_COUNT && !ret; family++) {
		ret = attach_multi(p, library, sites, first, family, true);
		ret = ret ?: attach_multi(p, library, sites, first, family, false);
	}
	return ret;
}

/* Finds what the rules name in a file, and attaches to it. */
static int probe_file(struct probes *p, const struct library *library, struct error *err)
{
	struct sites *sites = calloc(1, sizeof(*sites));
	struct elf_file *elf = NULL;
	uint32_t first = p->points;
	struct error ignored;
	int ret = 0;

	if (!sites)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	if (elf_file_open(library->fd, library->path, &elf, &ignored))
		goto out; /* not a program, or broken: then nobody can call it */
	ret = find_gpu(p, elf, library, sites, err);
	ret = ret ?: find_calls(p, elf, library, sites, err);
	if (ret)
		goto out;
	if (find_tls(p, elf, library, sites, &ignored))
		note_unread(library, ignored.text);
	if (!sites->count)
		goto out;
	if (!p->engine) {
		p->files++;
		goto out;
	}
	ret = write_points(p, library, sites);
	if (!ret) {
		ret = attach_file(p, library, sites, first, err);
		p->points += sites->count; /* links that are there have these numbers */
		p->files++;
	}
	if (ret && is_optional(sites)) {
		note_unread(library, why_not(ret));
		ret = 0;
	} else if (ret) {
		error_set(err, ret, EXIT_FAILED, "cannot put probes on %s: %s", library->path, why_not(ret));
	}
out:
	elf_file_close(elf);
	free(sites);
	return ret;
}

/* ---- looking ------------------------------------------------------------------------------------------------------- */

/* Files that nobody has open yet are probed before the first one does. */
static int look_on_disk(struct probes *p, struct error *err)
{
	struct library *found;
	int ret = 0;

	for (size_t i = 0; i < sizeof(gpu_libraries) / sizeof(gpu_libraries[0]) && !ret; i++) {
		if (p->tables->knobs.faults & 1 << CHAOS_GPU_OOM)
			ret = library_on_disk(&p->libraries, "/", gpu_libraries[i], &found, err);
	}
	for (size_t i = 0; tls_libraries[i] && p->tables->knobs.tls && !ret; i++)
		ret = library_on_disk(&p->libraries, "/", tls_libraries[i], &found, err);
	for (size_t i = 0; i < p->rules->count && !ret; i++) {
		const struct fault *fault = &p->rules->rules[i].fault;

		if (fault->faults & 1 << CHAOS_CALL)
			ret = library_on_disk(&p->libraries, "/", fault->call_library.text, &found, err);
	}
	return ret;
}

static int check_met(const struct probes *p, struct error *err)
{
	for (size_t i = 0; i < p->rules->count && !p->wait; i++) {
		const struct fault *fault = &p->rules->rules[i].fault;

		if (!(fault->faults & 1 << CHAOS_CALL) || p->met[i])
			continue;
		rules_error_at(p->rules, fault->call_library.mark, err, EXIT_USAGE,
			       "no process of rule '%s' has a library '%s' open, and there is none on this machine",
			       p->rules->rules[i].name, fault->call_library.text);
		error_hint(err, "with --wait it may be opened later");
		return -ENOENT;
	}
	return 0;
}

/* New files among those that the named processes have mapped. */
static int look_at_new(struct probes *p, bool first, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; i < p->libraries.count && !ret; i++) {
		struct library *library = p->libraries.entries[i];
		struct error ignored;

		if (library->seen)
			continue;
		library->seen = true;
		ret = probe_file(p, library, first ? err : &ignored);
		if (!first)
			ret = 0; /* the others are still to be had */
		library_forget(library);
	}
	return ret;
}

int probes_look(struct probes *p, const struct process_list *processes, bool first, struct error *err)
{
	int ret = 0;

	if (!p->met) {
		p->met = calloc(p->rules->count, sizeof(*p->met));
		ret = p->met ? 0 : -ENOMEM;
	}
	if (!ret && processes) {
		free(p->named);
		free(p->traced);
		p->traced = NULL;
		ret = named_pids(p, processes, false, &p->named, &p->named_count);
		ret = ret ?: named_pids(p, processes, true, &p->traced, &p->traced_count);
	}
	if (ret)
		return error_set(err, ret, EXIT_FAILED, "out of memory");
	ret = library_scan(&p->libraries, p->named, p->named_count, err);
	if (!ret && first)
		ret = look_on_disk(p, err);
	ret = ret ?: look_at_new(p, first, err);
	return ret ?: first ? check_met(p, err) : 0;
}

/* ---- the assist ---------------------------------------------------------------------------------------------------- */

int probes_trace(struct probes *p, struct error *err)
{
	const struct assist_maps maps = {
		.returns = engine_map(p->engine, "chaos_returns"),
		.traced = engine_map(p->engine, "chaos_traced"),
		.heartbeat = engine_map(p->engine, "chaos_assist"),
		.failed = engine_map(p->engine, "chaos_assist_failed"),
		.begun = engine_map(p->engine, "chaos_begun"),
		.control = engine_map(p->engine, "chaos_control"),
		.schedule = engine_map(p->engine, "chaos_schedule"),
		.intervals = engine_map(p->engine, "chaos_intervals"),
		.over = engine_map(p->engine, "chaos_call_over"),
	};
	int ret = assist_start(&maps, &p->assist, err);

	for (size_t i = 0; i < p->traced_count && !ret; i++) {
		ret = assist_add(&p->assist, p->traced[i], true, err);
		if (ret == -ESRCH || ret == -EINVAL || ret == -ENOEXEC)
			ret = 0; /* it has ended since, or is one that is never to be hit */
		if (ret == -EBUSY && assist_traces(p->traced[i]))
			ret = 0;
	}
	return ret;
}

void probes_follow(struct probes *p)
{
	struct error ignored;

	if (!p->assist.pid)
		return;
	if (assist_watch(&p->assist, &ignored)) {
		probes_trace(p, &ignored);
		return;
	}
	for (size_t i = 0; i < p->traced_count; i++) {
		uint32_t traced;

		if (bpf_map_lookup_elem(p->assist.maps.traced, &p->traced[i], &traced))
			assist_add(&p->assist, p->traced[i], true, &ignored);
	}
}

/* Held, or still to be: a busy assist comes to a call some time after it was decided. An old note is nobody's. */
static bool is_under_way(const struct chaos_return *call)
{
	return call->held || (call->runs != CHAOS_RUNS_NOW && boot_ns() < call->time_ns + PENDING_NS);
}

bool probes_hold(const struct probes *p)
{
	struct chaos_return call;
	uint32_t tid, *last = NULL;

	if (!p->assist.pid)
		return false;
	while (bpf_map_get_next_key(p->assist.maps.returns, last, &tid) == 0) {
		last = &tid;
		if (bpf_map_lookup_elem(p->assist.maps.returns, &tid, &call) == 0 && is_under_way(&call))
			return true;
	}
	return false;
}

void probes_free(struct probes *p)
{
	assist_stop(&p->assist);
	for (size_t i = 0; i < p->links_count; i++) {
		/* A probe that is a perf event is one for all who hold it: taking it off would take it off for the reaper, too. */
		if (p->handed_over)
			bpf_link__disconnect(p->links[i]);
		bpf_link__destroy(p->links[i]);
	}
	free(p->links);
	free(p->met);
	free(p->named);
	free(p->traced);
	engine_copies_free(&p->copies);
	library_list_free(&p->libraries);
	memset(p, 0, sizeof(*p));
}
