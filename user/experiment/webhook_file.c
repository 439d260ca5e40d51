// SPDX-License-Identifier: GPL-2.0-only
/*
 * The file of webhooks, and the secrets that it names. A secret in the file itself is refused: the file may be shown
 * around, and what it names may not.
 *
 *   version: 1
 *   webhooks:
 *     - shape: slack
 *       url: { file: /etc/chaosbpf/slack.url }
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/base/names.h"
#include "user/experiment/webhook_internal.h"
#include "user/rules/rules_parse.h"

#define SECRET_MAX 8192

const char *const webhook_shape_names[WEBHOOK_SHAPE_COUNT + 1] = { "json", "slack", "jira", NULL };

static const char *const authorization_names[WEBHOOK_AUTHORIZATION_COUNT + 1] = { "bearer", "basic", NULL };

/* ---- the keys ---- */

static const struct key secret_keys[] = {
	{ "file", key_text, offsetof(struct secret, file) },
	{ "variable", key_text, offsetof(struct secret, variable) },
	{ NULL, NULL, 0 },
};

static int key_secret(struct parser *p, const struct node *node, void *target)
{
	struct secret *secret = target;
	int err;

	if (node->kind == NODE_TEXT)
		return fail(p, node->mark,
			    "'%s' is a secret, which does not stand here: name its place, as in "
			    "{ file: /etc/chaosbpf/%s } or { variable: NAME }",
			    node->label, node->label);
	secret->mark = node->mark;
	err = map_parse(p, node, "a map with file or variable", secret_keys, secret);
	if (!err && !secret->file.text == !secret->variable.text)
		err = fail(p, node->mark, "'%s' needs one of file and variable", node->label);
	return err;
}

static int key_shape(struct parser *p, const struct node *node, void *target)
{
	unsigned int index;
	int err = value_choice(p, node, webhook_shape_names, &index);

	if (!err)
		*(enum webhook_shape *)target = index;
	return err;
}

static int key_authorization(struct parser *p, const struct node *node, void *target)
{
	unsigned int index;
	int err = value_choice(p, node, authorization_names, &index);

	if (!err)
		*(enum webhook_authorization *)target = index;
	return err;
}

static int environment_parse(struct parser *p, const struct node *node, void *target)
{
	struct webhook *webhook = target;

	return key_text(p, node, &webhook->environments[webhook->environments_count++]);
}

static int key_environments(struct parser *p, const struct node *node, void *target)
{
	if (value_count(node) > WEBHOOK_MAX)
		return fail(p, node->mark, "'%s' has more than %d entries", node->label, WEBHOOK_MAX);
	return value_each(p, node, environment_parse, target);
}

static const struct key webhook_keys[] = {
	{ "shape", key_shape, offsetof(struct webhook, shape) },
	{ "url", key_secret, offsetof(struct webhook, url) },
	{ "token", key_secret, offsetof(struct webhook, token) },
	{ "authorization", key_authorization, offsetof(struct webhook, authorization) },
	{ "project", key_text, offsetof(struct webhook, project) },
	{ "issue-type", key_text, offsetof(struct webhook, issue_type) },
	{ "environments", key_environments, 0 },
	{ NULL, NULL, 0 },
};

static int webhook_parse(struct parser *p, const struct node *node, void *target)
{
	struct webhooks *webhooks = target;
	struct webhook *webhook = &webhooks->list[webhooks->count++];
	int err;

	webhook->mark = node->mark;
	err = map_parse(p, node, "a map with shape and url", webhook_keys, webhook);
	if (!err && !webhook->url.mark.line)
		err = fail(p, node->mark, "a webhook needs a url, as in url: { file: /etc/chaosbpf/slack.url }");
	if (!err && webhook->shape == WEBHOOK_JIRA && !webhook->project.text)
		err = fail(p, node->mark, "a webhook of shape jira needs a project, as in project: OPS");
	return err;
}

/* ---- secrets ---- */

static int read_secret_file(struct parser *p, const struct text *file, char *buf, size_t size)
{
	int fd = open(file->text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t len;

	if (fd < 0)
		return fail(p, file->mark, "cannot open '%s': %s", show(p, file->text), strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_mode & 077) {
		close(fd);
		return fail(p, file->mark,
			    "'%s' is not trusted with a secret: it must be a file that only its owner can "
			    "read (chmod 600)",
			    show(p, file->text));
	}
	len = read(fd, buf, size - 1);
	close(fd);
	buf[len > 0 ? len : 0] = '\0';
	return 0;
}

static int read_secret(struct parser *p, struct secret *secret)
{
	char buf[SECRET_MAX] = "";
	const char *value = buf;
	size_t len;
	int err = 0;

	if (!secret->mark.line)
		return 0;
	if (secret->file.text)
		err = read_secret_file(p, &secret->file, buf, sizeof(buf));
	else
		value = getenv(secret->variable.text) ?: "";
	if (err)
		return err;
	len = strlen(value);
	while (len && strchr(" \t\r\n", value[len - 1]))
		len--;
	for (size_t i = 0; i < len; i++) {
		/* It becomes part of a header: a line break in it would begin another. */
		if ((unsigned char)value[i] <= ' ')
			return fail(p, secret->mark, "the secret in '%s' is more than one word",
				    show(p, secret->file.text ?: secret->variable.text));
	}
	if (!len)
		return fail(p, secret->mark, "'%s' holds no secret",
			    show(p, secret->file.text ?: secret->variable.text));
	secret->value = strndup(value, len);
	explicit_bzero(buf, sizeof(buf));
	return secret->value ? 0 : out_of_memory(p);
}

static int read_secrets(struct parser *p, struct webhook *webhook)
{
	int err = read_secret(p, &webhook->url);

	if (!err && strncmp(webhook->url.value, "https://", 8) != 0 && strncmp(webhook->url.value, "http://", 7) != 0)
		err = fail(p, webhook->url.mark, "the url in '%s' begins neither with https:// nor with http://",
			   show(p, webhook->url.file.text ?: webhook->url.variable.text));
	return err ? err : read_secret(p, &webhook->token);
}

/* ---- the file ---- */

static const struct key file_keys[] = {
	{ "version", key_later, 0 },
	{ "webhooks", key_later, 0 },
	{ NULL, NULL, 0 },
};

static int file_parse(struct parser *p, const struct node *root, struct webhooks *webhooks)
{
	const struct node *node;
	int err = map_check_keys(p, root, "a map with version and webhooks", file_keys);

	if (!err)
		err = version_check(p, root);
	if (err)
		return err;
	node = node_get(root, "webhooks");
	if (!node)
		return fail(p, root->mark, "the webhooks are missing, write 'webhooks:' and a list below it");
	if (value_count(node) > WEBHOOK_MAX)
		return fail(p, node->mark, "'%s' has more than %d entries", node->label, WEBHOOK_MAX);
	err = value_each(p, node, webhook_parse, webhooks);
	for (size_t i = 0; i < webhooks->count && !err; i++)
		err = read_secrets(p, &webhooks->list[i]);
	return err;
}

/* `file` has its source already. */
static int parse_source(struct rules *file, struct webhooks **webhooks, struct error *err)
{
	struct parser parser = { .rules = file, .err = err, .presets_only = true };
	struct webhooks *made = calloc(1, sizeof(*made));
	struct node *root = NULL;
	int code;

	if (!made)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = source_check(file, err);
	if (!code)
		code = yaml_read(file, &root, err);
	if (!code)
		code = file_parse(&parser, root, made);
	node_free(root);
	if (code) {
		webhooks_free(made);
		return code;
	}
	*webhooks = made;
	return 0;
}

int webhook_file_load(const char *file, struct webhooks **webhooks, struct error *err)
{
	struct rules *source;
	int code;

	*webhooks = NULL;
	if (access(file, F_OK) < 0 && errno == ENOENT)
		return -ENOENT;
	source = rules_new(file);
	if (!source)
		return error_set(err, -ENOMEM, EXIT_FAILED, "out of memory");
	code = source_read(source, file, err);
	if (!code)
		code = parse_source(source, webhooks, err);
	rules_free(source);
	return code;
}

int webhook_file_parse(const char *file, const char *source, size_t len, struct webhooks **webhooks, struct error *err)
{
	struct rules *made = rules_new(file);
	int code = -ENOMEM;

	*webhooks = NULL;
	if (made)
		made->source = bytes_copy(source, len);
	if (made && made->source) {
		made->source_len = len;
		code = parse_source(made, webhooks, err);
	} else {
		error_set(err, code, EXIT_FAILED, "out of memory");
	}
	rules_free(made);
	return code;
}

static void secret_free(struct secret *secret)
{
	if (secret->value)
		explicit_bzero(secret->value, strlen(secret->value));
	free(secret->value);
	free(secret->file.text);
	free(secret->variable.text);
}

void webhooks_free(struct webhooks *webhooks)
{
	for (size_t i = 0; webhooks && i < webhooks->count; i++) {
		struct webhook *webhook = &webhooks->list[i];

		secret_free(&webhook->url);
		secret_free(&webhook->token);
		free(webhook->project.text);
		free(webhook->issue_type.text);
		for (size_t k = 0; k < webhook->environments_count; k++)
			free(webhook->environments[k].text);
	}
	free(webhooks);
}

bool webhook_wants(const struct webhook *webhook, const struct findings_run *run)
{
	for (size_t i = 0; i < webhook->environments_count; i++) {
		if (strcmp(webhook->environments[i].text, run->environment) == 0)
			return true;
	}
	return !webhook->environments_count;
}
