// SPDX-License-Identifier: GPL-2.0-only
#include "user/target/container_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CONFIG (1024 * 1024)      /* bytes of one container's file */
#define MAX_LIST   (16 * 1024 * 1024) /* of podman's list of all */
#define MAX_FILES  16384              /* of one directory */

/* ---- files that are not trusted ---- */

/* Opens `path` as if `root` were the root of the file system: no link leads out of it. */
static int open_below(int root, const char *path, int flags, bool links)
{
	struct open_how how = {
		.flags = (unsigned int)flags | O_CLOEXEC | O_NONBLOCK,
		.resolve = links ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* A regular file of at most `max` bytes, whole; NULL otherwise. */
static char *read_below(int root, const char *path, size_t max, bool links, size_t *len, uid_t *owner)
{
	int fd = open_below(root, path, O_RDONLY, links);
	struct stat st;
	char *text = NULL;
	ssize_t got;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size <= max)
		text = malloc((size_t)st.st_size + 1);
	for (*len = 0; text && *len < (size_t)st.st_size; *len += (size_t)got) {
		got = read(fd, text + *len, (size_t)st.st_size - *len);
		if (got <= 0)
			break; /* shorter than it was: the parser will say so */
	}
	if (owner)
		*owner = st.st_uid;
	close(fd);
	return text;
}

typedef int (*name_fn)(int dir, const char *name, void *arg);

/* Calls fn for the entries of a directory; stops at the first non-zero return. */
static int each_below(int root, const char *path, bool links, name_fn fn, void *arg)
{
	int fd = open_below(root, path, O_RDONLY | O_DIRECTORY, links), err = 0;
	struct dirent *entry;
	size_t count = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (!err && count++ < MAX_FILES && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			err = fn(dirfd(dir), entry->d_name, arg);
	}
	closedir(dir);
	return err;
}

/* ---- what is said in them ---- */

static bool is_id(const char *text)
{
	return text && strspn(text, "0123456789abcdef") == CONTAINER_ID_LEN && !text[CONTAINER_ID_LEN];
}

/* As runtimes and Kubernetes allow them. */
static bool is_name(const char *text)
{
	size_t len = text ? strlen(text) : 0;

	return len > 0 && len <= CONTAINER_MAX_NAME &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == len;
}

static int add(struct container_names *names, const struct container_name *name)
{
	struct container_name *more, copy = *name;

	if (names->count == CONTAINER_MAX_NAMES)
		return 0;
	copy.name = strdup(name->name);
	copy.pod = name->pod ? strdup(name->pod) : NULL;
	more = realloc(names->list, (names->count + 1) * sizeof(*more));
	if (more)
		names->list = more;
	if (!more || !copy.name || (name->pod && !copy.pod)) {
		free(copy.name);
		free(copy.pod);
		return -ENOMEM;
	}
	more[names->count++] = copy;
	return 0;
}

static int add_container(struct container_names *names, const char *id, const char *name, const char *namespace,
			 const char *pod_name, uid_t owner)
{
	struct container_name one = { .name = (char *)name, .owner = owner };
	char pod[2 * CONTAINER_MAX_NAME + 2];

	if (!is_id(id) || !is_name(name))
		return 0;
	strcpy(one.id, id);
	if (is_name(namespace) && is_name(pod_name)) {
		snprintf(pod, sizeof(pod), "%s/%s", namespace, pod_name);
		one.pod = pod;
	}
	return add(names, &one);
}

/*
 * CRI-O, and docker behind cri-dockerd, call containers k8s_<container>_<pod>_<namespace>_<uid>_<attempt>. Container,
 * pod and namespace hold no underscore. The container that holds the pod together is called POD.
 */
static int add_name(struct container_names *names, const char *id, const char *name, uid_t owner)
{
	char container[64] = "", pod[CONTAINER_MAX_NAME + 1] = "", namespace[64] = "";

	if (name && name[0] == '/')
		name++;
	if (!is_name(name))
		return 0;
	if (sscanf(name, "k8s_%63[^_]_%253[^_]_%63[^_]_", container, pod, namespace) == 3)
		return add_container(names, id, container, namespace, pod, owner);
	return add_container(names, id, name, NULL, NULL, owner);
}

static json_t *parse(const char *json, size_t len)
{
	return json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

int docker_config_parse(const char *id, const char *json, size_t len, struct container_names *names)
{
	json_t *config = parse(json, len);
	int err = add_name(names, id, text_of(config, "Name"), 0);

	json_decref(config);
	return err;
}

int podman_list_parse(const char *json, size_t len, uid_t owner, struct container_names *names)
{
	json_t *list = parse(json, len), *one, *name;
	size_t i, k;
	int err = 0;

	json_array_foreach(list, i, one)
	{
		json_array_foreach(json_object_get(one, "names"), k, name)
		{
			if (!err)
				err = add_name(names, text_of(one, "id"), json_string_value(name), owner);
		}
	}
	json_decref(list);
	return err;
}

int containerd_config_parse(const char *id, const char *json, size_t len, struct container_names *names)
{
	json_t *config = parse(json, len), *notes = json_object_get(config, "annotations");
	int err = add_container(names, id, text_of(notes, "io.kubernetes.cri.container-name"),
				text_of(notes, "io.kubernetes.cri.sandbox-namespace"),
				text_of(notes, "io.kubernetes.cri.sandbox-name"), 0);

	json_decref(config);
	return err;
}

/* ---- where they are ---- */

static int docker_one(int dir, const char *name, void *names)
{
	char path[CONTAINER_ID_LEN + 32], *text;
	size_t len;
	int err = 0;

	if (!is_id(name))
		return 0;
	snprintf(path, sizeof(path), "%s/config.v2.json", name);
	text = read_below(dir, path, MAX_CONFIG, false, &len, NULL);
	if (text)
		err = docker_config_parse(name, text, len, names);
	free(text);
	return err;
}

static int containerd_one(int dir, const char *name, void *names)
{
	char path[CONTAINER_ID_LEN + 32], *text;
	size_t len;
	int err = 0;

	if (!is_id(name))
		return 0;
	snprintf(path, sizeof(path), "%s/config.json", name);
	text = read_below(dir, path, MAX_CONFIG, false, &len, NULL);
	if (text)
		err = containerd_config_parse(name, text, len, names);
	free(text);
	return err;
}

static int containerd_space(int dir, const char *name, void *names)
{
	return each_below(dir, name, false, containerd_one, names);
}

/* Storage drivers each have their own list: overlay-containers, vfs-containers, ... */
struct storage {
	struct container_names *names;
	uid_t owner; /* who must own the list, and whose word it is */
};

static int podman_one(int dir, const char *name, void *arg)
{
	const struct storage *storage = arg;
	size_t name_len = strlen(name), len;
	char path[300], *text;
	uid_t owner = 0;
	int err = 0;

	if (name_len < 11 || strcmp(name + name_len - 11, "-containers") != 0)
		return 0;
	snprintf(path, sizeof(path), "%s/containers.json", name);
	text = read_below(dir, path, MAX_LIST, false, &len, &owner);
	if (text && owner == storage->owner)
		err = podman_list_parse(text, len, owner, storage->names);
	free(text);
	return err;
}

/* A user's own: links are not followed at all, and nobody speaks for root from there. */
static int podman_home(int dir, const char *name, void *names)
{
	struct storage storage = { .names = names };
	int home = open_below(dir, name, O_RDONLY | O_DIRECTORY, false), err = 0;
	struct stat st;

	if (home < 0)
		return 0;
	if (fstat(home, &st) == 0 && st.st_uid != 0) {
		storage.owner = st.st_uid;
		err = each_below(home, ".local/share/containers/storage", false, podman_one, &storage);
	}
	close(home);
	return err;
}

/* "<pod>_<namespace>_<container>-<id>.log" */
static int kubelet_log(int dir, const char *file, void *names)
{
	char name[3 * CONTAINER_MAX_NAME], id[CONTAINER_ID_LEN + 1], *namespace, *container, *dash;
	size_t len = strlen(file);

	(void)dir;
	if (len < CONTAINER_ID_LEN + 6 || len >= sizeof(name) || strcmp(file + len - 4, ".log") != 0)
		return 0;
	strcpy(name, file);
	name[len - 4] = '\0';
	dash = name + len - 4 - CONTAINER_ID_LEN - 1;
	if (*dash != '-')
		return 0;
	*dash = '\0';
	snprintf(id, sizeof(id), "%s", dash + 1);
	namespace = strchr(name, '_');
	container = namespace ? strchr(namespace + 1, '_') : NULL;
	if (!container)
		return 0;
	*namespace ++ = *container++ = '\0';
	return add_container(names, id, container, namespace, name, 0);
}

/* "<namespace>_<pod>_<uid>" */
static int kubelet_pod(int dir, const char *file, void *names)
{
	struct container_name one = { .is_pod = true };
	char namespace[64] = "", pod[CONTAINER_MAX_NAME + 1] = "", path[sizeof(namespace) + sizeof(pod)];
	int used = 0;

	(void)dir;
	if (sscanf(file, "%63[^_]_%253[^_]_%64[0-9a-f-]%n", namespace, pod, one.id, &used) != 3 || file[used])
		return 0;
	if (!is_name(namespace) || !is_name(pod))
		return 0;
	snprintf(path, sizeof(path), "%s/%s", namespace, pod);
	one.name = one.pod = path;
	return add(names, &one);
}

int container_names_read(const char *root, struct container_names *names)
{
	struct storage storage = { .names = names };
	int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;

	memset(names, 0, sizeof(*names));
	if (dir < 0)
		return 0;
	err = each_below(dir, "var/lib/docker/containers", true, docker_one, names);
	err = err ?: each_below(dir, "var/lib/containers/storage", true, podman_one, &storage);
	err = err ?: each_below(dir, "home", true, podman_home, names);
	err = err ?: each_below(dir, "run/containerd/io.containerd.runtime.v2.task", true, containerd_space, names);
	err = err ?: each_below(dir, "var/log/containers", true, kubelet_log, names);
	err = err ?: each_below(dir, "var/log/pods", true, kubelet_pod, names);
	close(dir);
	if (err)
		container_names_free(names);
	return err;
}

void container_names_free(struct container_names *names)
{
	for (size_t i = 0; i < names->count; i++) {
		free(names->list[i].name);
		free(names->list[i].pod);
	}
	free(names->list);
	memset(names, 0, sizeof(*names));
}
