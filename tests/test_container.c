// SPDX-License-Identifier: GPL-2.0-only
/*
 * user/container*.c and user/target/cgroup_tree.c: names of containers, pods and units looked up in made-up machines, one for
 * each runtime's layout of cgroups and of state files.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/target/container.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
/* 64 digits that begin with these eight. */
#define ID(eight) eight "00112233445566778899aabbccddeeff00112233445566778899aabb"
#define UID       "3f2a1b4c-0d5e-4f60-8a7b-9c0d1e2f3a4b"
#define UID_      "3f2a1b4c_0d5e_4f60_8a7b_9c0d1e2f3a4b"

/* ---- what names tell ---- */

Test(cgroup_tree, ids_of_containers)
{
	static const struct {
		const char *path;
		bool is_one;
	} cases[] = {
		{ "docker/" ID("aaaaaaaa"), true },
		{ "system.slice/docker-" ID("aaaaaaaa") ".scope", true },
		{ "user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID("aaaaaaaa") ".scope", true },
		{ "machine.slice/libpod-" ID("aaaaaaaa") ".scope", true },
		{ "libpod_parent/libpod-" ID("aaaaaaaa"), true },
		{ "kubepods/burstable/pod" UID "/" ID("aaaaaaaa"), true },
		{ "kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID("aaaaaaaa") ".scope", true },
		{ "kubepods.slice/crio-" ID("aaaaaaaa") ".scope", true },
		{ "machine.slice/libpod-conmon-" ID("aaaaaaaa") ".scope", false },
		{ "kubepods.slice/crio-conmon-" ID("aaaaaaaa") ".scope", false },
		{ "machine.slice/libpod-" ID("aaaaaaaa") ".scope/container", false },
		{ "docker", false },
		{ "docker/aaaaaaaa", false },
		{ "docker/" ID("aaaaaaaa") "0", false },
		{ "docker/" ID("AAAAAAAA"), false },
		{ "docker/" ID("aaaaaaaa") ".slice", false },
		{ "", false },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char id[CONTAINER_ID_LEN + 1] = "";

		cr_expect_eq(cgroup_container_id(cases[i].path, id), cases[i].is_one, "%s", cases[i].path);
		cr_expect_str_eq(id, cases[i].is_one ? ID("aaaaaaaa") : "");
	}
}

Test(cgroup_tree, pods)
{
	cr_expect(cgroup_is_pod("kubepods/pod" UID, UID));
	cr_expect(cgroup_is_pod("kubepods/besteffort/pod" UID, UID));
	cr_expect(cgroup_is_pod("kubepods.slice/kubepods-pod" UID_ ".slice", UID));
	cr_expect(cgroup_is_pod("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice", UID));
	cr_expect_not(cgroup_is_pod("kubepods.slice/kubepods-burstable-pod" UID_, UID));
	cr_expect_not(cgroup_is_pod("kubepods.slice/kubepods-burstable-pod" UID_ "0.slice", UID));
	cr_expect_not(cgroup_is_pod("kubepods/pod" UID "/" ID("aaaaaaaa"), UID));
	cr_expect_not(cgroup_is_pod("kubepods/" UID, UID));
}

Test(cgroup_tree, units)
{
	cr_expect(cgroup_is_unit("system.slice/rag.service", "rag.service"));
	cr_expect(cgroup_is_unit("rag.slice", "rag.slice"));
	cr_expect(cgroup_is_unit("user.slice/user-1000.slice/user@1000.service/app.slice/rag.service", "rag.service"));
	cr_expect_not(cgroup_is_unit("system.slice/rag.service/worker", "rag.service"));
	cr_expect_not(
		cgroup_is_unit("system.slice/docker-" ID("aaaaaaaa") ".scope/system.slice/rag.service", "rag.service"));
	cr_expect_not(cgroup_is_unit("lxc.payload.web/system.slice/rag.service", "rag.service"));
	cr_expect_not(cgroup_is_unit("system.slice/other.service/rag.service", "rag.service"));
	cr_expect(cgroup_is_below("a/b", "a"));
	cr_expect(cgroup_is_below("a", "a"));
	cr_expect_not(cgroup_is_below("ab", "a"));
}

/* ---- made-up machines ---- */

static char root[] = "/tmp/chaosbpf-container-XXXXXX";
static struct cgroup_mounts mounts;
static char mount2[256];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void machine_ends(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A directory below the root, with those above it. */
static void make_dir(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void make_dir(const char *fmt, ...)
{
	char path[1024];
	size_t len = (size_t)snprintf(path, sizeof(path), "%s/", root);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path + len, sizeof(path) - len, fmt, ap);
	va_end(ap);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST, "%s", path);
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[1024];
	FILE *file;

	make_dir("%s", dir);
	snprintf(path, sizeof(path), "%s/%s/%s", root, dir, name);
	file = fopen(path, "w");
	cr_assert_not_null(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

static void docker(const char *id, const char *name)
{
	char dir[256], text[256];

	snprintf(dir, sizeof(dir), "var/lib/docker/containers/%s", id);
	snprintf(text, sizeof(text), "{\"ID\":\"%s\",\"Name\":\"/%s\",\"State\":{\"Pid\":7}}", id, name);
	put_file(dir, "config.v2.json", text);
}

static void podman(const char *storage, const char *id, const char *name)
{
	char dir[256], text[256];

	snprintf(dir, sizeof(dir), "%s/overlay-containers", storage);
	snprintf(text, sizeof(text), "[{\"id\":\"%s\",\"names\":[\"%s\",\"other-%s\"],\"image\":\"x\"}]", id, name,
		 name);
	put_file(dir, "containers.json", text);
}

static void containerd(const char *id, const char *container, const char *pod)
{
	char dir[256], text[512];

	snprintf(dir, sizeof(dir), "run/containerd/io.containerd.runtime.v2.task/k8s.io/%s", id);
	snprintf(text, sizeof(text),
		 "{\"ociVersion\":\"1\",\"annotations\":{\"io.kubernetes.cri.container-name\":\"%s\","
		 "\"io.kubernetes.cri.sandbox-name\":\"%s\",\"io.kubernetes.cri.sandbox-namespace\":\"default\"}}",
		 container, pod);
	put_file(dir, "config.json", text);
}

static void machine(void)
{
	cr_assert_not_null(mkdtemp(root));
	make_dir("cg");
	snprintf(mount2, sizeof(mount2), "%s/cg", root);
	mounts = (struct cgroup_mounts){ .v2 = mount2 };
}

TestSuite(container, .init = machine, .fini = machine_ends);

static int find(const char *match, char *found, size_t size, struct error *err)
{
	struct machine looked = { .mounts = &mounts, .root = root };
	struct rules *rules;
	char source[1024], **paths;
	size_t count;
	int ret;

	snprintf(source, sizeof(source),
		 "version: 1\nrules: [ { name: a, match: { %s }, fault: { drop: true }, duration: 1m } ]\n", match);
	memset(err, 0, sizeof(*err));
	cr_assert_eq(rules_parse("t", source, strlen(source), NULL, &rules, err), 0, "%s: %s", match, err->text);
	ret = container_cgroups(&looked, rules, &rules->rules[0].match, &paths, &count, err);
	found[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		snprintf(found + strlen(found), size - strlen(found), "%s%s", i ? " " : "", paths[i]);
		free(paths[i]);
	}
	free(paths);
	rules_free(rules);
	machine_free(&looked);
	return ret;
}

static void expect_found(const char *match, const char *path)
{
	char found[1024];
	struct error err;

	cr_expect_eq(find(match, found, sizeof(found), &err), 0, "%s: %s", match, err.text);
	cr_expect_str_eq(found, path, "%s: %s, expected %s", match, found, path);
}

static void expect_not(const char *match, int code, const char *text)
{
	char found[1024];
	struct error err;

	cr_expect_eq(find(match, found, sizeof(found), &err), code, "%s", match);
	cr_expect_eq(err.exit, EXIT_USAGE);
	cr_expect_str_eq(found, "");
	cr_expect_str_eq(err.text, text, "\n  got:      %s\n  expected: %s", err.text, text);
	cr_expect_neq(err.hint[0], '\0');
}

Test(container, of_docker)
{
	docker(ID("aaaaaaaa"), "rag-api");
	docker(ID("bbbbbbbb"), "rag-db");
	docker(ID("cccccccc"), "stopped");
	make_dir("cg/system.slice/docker-" ID("aaaaaaaa") ".scope/init");
	make_dir("cg/docker/" ID("bbbbbbbb"));
	expect_found("container: rag-api", "system.slice/docker-" ID("aaaaaaaa") ".scope");
	expect_found("container: rag-db", "docker/" ID("bbbbbbbb"));
	expect_found("container: " ID("aaaaaaaa"), "system.slice/docker-" ID("aaaaaaaa") ".scope");
	expect_found("container: bbbbbbbb0011", "docker/" ID("bbbbbbbb"));
	expect_not("container: bbbbbbb", -ENOENT, "t:2:41: no container 'bbbbbbb' is running here");
	expect_not("container: stopped", -ENOENT, "t:2:41: no container 'stopped' is running here");
	expect_not("container: rag", -ENOENT, "t:2:41: no container 'rag' is running here");
}

/* Recreated under the same name: the state of the old one may still be there, its cgroup is not. */
Test(container, that_comes_again)
{
	docker(ID("aaaaaaaa"), "rag-api");
	docker(ID("bbbbbbbb"), "rag-api");
	make_dir("cg/docker/" ID("bbbbbbbb"));
	expect_found("container: rag-api", "docker/" ID("bbbbbbbb"));
	make_dir("cg/docker/" ID("aaaaaaaa"));
	expect_not("container: rag-api", -EINVAL, "t:2:41: container 'rag-api' could be 2: aaaaaaaa0011, bbbbbbbb0011");
}

Test(container, of_podman)
{
	podman("var/lib/containers/storage", ID("aaaaaaaa"), "rag-api");
	make_dir("cg/machine.slice/libpod-" ID("aaaaaaaa") ".scope/container");
	make_dir("cg/machine.slice/libpod-conmon-" ID("aaaaaaaa") ".scope");
	expect_found("container: rag-api", "machine.slice/libpod-" ID("aaaaaaaa") ".scope");
	expect_found("container: other-rag-api", "machine.slice/libpod-" ID("aaaaaaaa") ".scope");
}

/* Root looks into homes; what is written there counts for cgroups of its writer alone. */
Test(container, of_a_user)
{
	const char *storage = "home/ann/.local/share/containers/storage";
	char path[512];

	if (geteuid() != 0)
		cr_skip_test("needs root, to give files to another user");
	podman(storage, ID("aaaaaaaa"), "mine");
	snprintf(path, sizeof(path), "%s/home/ann", root);
	cr_assert_eq(chown(path, 1000, 1000), 0);
	snprintf(path, sizeof(path), "%s/%s/overlay-containers/containers.json", root, storage);
	make_dir("cg/system.slice/docker-" ID("aaaaaaaa") ".scope");
	expect_not("container: mine", -ENOENT, "t:2:41: no container 'mine' is running here");
	cr_assert_eq(chown(path, 1000, 1000), 0);
	expect_not("container: mine", -ENOENT, "t:2:41: no container 'mine' is running here");
	make_dir("cg/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-" ID("aaaaaaaa") ".scope");
	expect_not("container: mine", -ENOENT, "t:2:41: no container 'mine' is running here");
	make_dir("cg/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID("aaaaaaaa") ".scope");
	expect_found("container: mine",
		     "user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID("aaaaaaaa") ".scope");
}

Test(container, of_kubernetes)
{
	char log[512];

	containerd(ID("aaaaaaaa"), "app", "rag-0");
	snprintf(log, sizeof(log), "rag-1_default_app-%s.log", ID("bbbbbbbb"));
	put_file("var/log/containers", log, "");
	make_dir("var/log/pods/default_rag-0_" UID);
	make_dir("var/log/pods/default_rag-1_11111111-0d5e-4f60-8a7b-9c0d1e2f3a4b");
	make_dir("cg/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		 ".slice/cri-containerd-" ID("aaaaaaaa") ".scope");
	make_dir("cg/kubepods/besteffort/pod11111111-0d5e-4f60-8a7b-9c0d1e2f3a4b/" ID("bbbbbbbb"));
	expect_found("pod: default/rag-0",
		     "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice");
	expect_found("pod: " UID, "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice");
	expect_found("pod: default/rag-1", "kubepods/besteffort/pod11111111-0d5e-4f60-8a7b-9c0d1e2f3a4b");
	expect_found("pod: default/rag-0, container: app",
		     "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		     ".slice/cri-containerd-" ID("aaaaaaaa") ".scope");
	expect_not("container: app", -EINVAL,
		   "t:2:41: container 'app' could be 2: aaaaaaaa0011 (default/rag-0), bbbbbbbb0011 (default/rag-1)");
	expect_not("pod: default/rag-2", -ENOENT, "t:2:35: no pod 'default/rag-2' is running here");
	expect_not("pod: default/rag-1, container: other", -ENOENT, "t:2:61: no container 'other' is running here");
}

/* CRI-O, and docker behind cri-dockerd, write pod and namespace into the name. */
Test(container, with_names_that_kubernetes_makes)
{
	docker(ID("aaaaaaaa"), "k8s_app_rag-0_default_" UID "_0");
	podman("var/lib/containers/storage", ID("bbbbbbbb"), "k8s_side_rag-0_default_" UID "_0");
	make_dir("cg/kubepods/pod" UID "/" ID("aaaaaaaa"));
	make_dir("cg/kubepods.slice/crio-" ID("bbbbbbbb") ".scope");
	expect_found("container: app", "kubepods/pod" UID "/" ID("aaaaaaaa"));
	expect_found("container: side", "kubepods.slice/crio-" ID("bbbbbbbb") ".scope");
}

Test(container, units)
{
	make_dir("cg/system.slice/rag.service/worker");
	make_dir("cg/system.slice/both.service");
	make_dir("cg/user.slice/user-1000.slice/user@1000.service/app.slice/both.service");
	make_dir("cg/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service");
	make_dir("cg/rag.slice");
	expect_found("unit: rag", "system.slice/rag.service");
	expect_found("unit: rag.service", "system.slice/rag.service");
	expect_found("unit: rag.slice", "rag.slice");
	expect_found("unit: mine", "user.slice/user-1000.slice/user@1000.service/app.slice/mine.service");
	expect_not("unit: nobody", -ENOENT, "t:2:36: no unit 'nobody' is running here");
	expect_not("unit: both", -EINVAL,
		   "t:2:36: unit 'both' could be 2: system.slice/both.service, "
		   "user.slice/user-1000.slice/user@1000.service/app.slice/both.service");
}

/* v1 hierarchies have the same container each; it is one, and found where v2 does not have it. */
Test(container, in_v1_hierarchies)
{
	for (size_t i = 0; i < 2; i++) {
		mounts.v1[i].number = (unsigned int)i + 4;
		snprintf(mounts.v1[i].mount, sizeof(mounts.v1[i].mount), "%s/%s", root, i ? "pids" : "memory");
	}
	mounts.v1_count = 2;
	docker(ID("aaaaaaaa"), "rag-api");
	make_dir("memory/docker/" ID("aaaaaaaa"));
	make_dir("pids/docker/" ID("aaaaaaaa"));
	expect_found("container: rag-api", "docker/" ID("aaaaaaaa"));
}

/* ---- files that are not trusted ---- */

Test(container, state_that_makes_no_sense)
{
	static const char *const texts[] = { "",
					     "{",
					     "[]",
					     "7",
					     "null",
					     "{\"Name\": 7}",
					     "{\"Name\": \"\"}",
					     "{\"Name\": \"a b\"}",
					     "{\"Name\": \"/rag-api\", \"Name\": \"/rag-api\"}",
					     "{\"Name\": \"/../rag-api\"}",
					     "[{\"id\": 7, \"names\": [\"rag-api\"]}]",
					     "[{\"id\": \"x\", \"names\": [7, {}]}]",
					     "{\"annotations\": []}" };

	make_dir("cg/docker/" ID("aaaaaaaa"));
	for (size_t i = 0; i < COUNT(texts); i++) {
		put_file("var/lib/docker/containers/" ID("aaaaaaaa"), "config.v2.json", texts[i]);
		put_file("run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID("aaaaaaaa"), "config.json",
			 texts[i]);
		put_file("var/lib/containers/storage/overlay-containers", "containers.json", texts[i]);
		expect_not("container: rag-api", -ENOENT, "t:2:41: no container 'rag-api' is running here");
	}
}

Test(container, state_that_is_too_large)
{
	char path[512];

	docker(ID("aaaaaaaa"), "rag-api");
	make_dir("cg/docker/" ID("aaaaaaaa"));
	expect_found("container: rag-api", "docker/" ID("aaaaaaaa"));
	snprintf(path, sizeof(path), "%s/var/lib/docker/containers/%s/config.v2.json", root, ID("aaaaaaaa"));
	cr_assert_eq(truncate(path, 1024 * 1024 + 1), 0);
	expect_not("container: rag-api", -ENOENT, "t:2:41: no container 'rag-api' is running here");
}

/* A link to a file outside is not followed; one of the places themselves (a disk for docker) is, below the root. */
Test(container, links)
{
	char outside[512], path[512], text[256];
	FILE *file;

	docker(ID("aaaaaaaa"), "rag-api");
	make_dir("cg/docker/" ID("aaaaaaaa"));
	snprintf(path, sizeof(path), "%s/var/lib/docker/containers/%s/config.v2.json", root, ID("aaaaaaaa"));
	snprintf(outside, sizeof(outside), "%s.outside", root);
	file = fopen(outside, "w");
	cr_assert_not_null(file);
	snprintf(text, sizeof(text), "{\"Name\":\"/rag-api\"}");
	fputs(text, file);
	fclose(file);
	cr_assert(unlink(path) == 0 && symlink(outside, path) == 0);
	expect_not("container: rag-api", -ENOENT, "t:2:41: no container 'rag-api' is running here");
	unlink(outside);
	docker(ID("bbbbbbbb"), "on-a-disk");
	snprintf(path, sizeof(path), "%s/var/lib/docker", root);
	snprintf(outside, sizeof(outside), "%s/disk", root);
	cr_assert(rename(path, outside) == 0 && symlink("/disk", path) == 0);
	make_dir("cg/docker/" ID("bbbbbbbb"));
	expect_found("container: on-a-disk", "docker/" ID("bbbbbbbb"));
}
