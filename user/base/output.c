// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tables through libsmartcols, JSON by a small writer of our own (libsmartcols cannot nest objects in a cell and passes
 * on bytes that are not UTF-8). What is in a table is the commands' business.
 */
#include "user/base/output.h"

#include <errno.h>
#include <libsmartcols/libsmartcols.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "user/base/error.h"
#include "user/base/log.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

static void *need(void *memory)
{
	if (!memory) {
		log_set_json(NULL); /* a document may be half written */
		exit(log_fail(EXIT_FAILED, NULL, "out of memory"));
	}
	return memory;
}

/* ---- text ---- */

size_t utf8_read(const char *text, uint32_t *character)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *byte = (const unsigned char *)text;
	size_t len;
	uint32_t c;

	if (byte[0] < 0x80) {
		*character = byte[0];
		return 1;
	}
	len = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : 2;
	if (byte[0] < 0xc2 || byte[0] > 0xf4)
		return 0;
	c = byte[0] & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (byte[i] & 0x3f);
	}
	if (c < smallest[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*character = c;
	return len;
}

/* C0, DEL, C1, and the characters that turn the direction of text: what may deceive or disturb a terminal. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void text_clean(char *out, size_t size, const char *text)
{
	size_t used = 0;

	out[0] = '\0';
	while (*text) {
		char piece[16];
		uint32_t c;
		size_t len = utf8_read(text, &c);

		if (!len)
			snprintf(piece, sizeof(piece), REPLACEMENT);
		else if (is_control(c))
			snprintf(piece, sizeof(piece), c > 0xff ? "\\u%04x" : "\\x%02x", (unsigned int)c);
		else
			snprintf(piece, sizeof(piece), "%.*s", (int)len, text);
		if (used + strlen(piece) >= size)
			return;
		strcpy(out + used, piece);
		used += strlen(piece);
		text += len ? len : 1;
	}
}

/* "1.25" for 1.250: a number with at most three decimals. */
static void decimal_text(char *out, size_t size, double value)
{
	char *end;

	snprintf(out, size, "%.3f", value);
	if (!strchr(out, '.'))
		return;
	end = out + strlen(out) - 1;
	while (*end == '0')
		*end-- = '\0';
	if (*end == '.')
		*end = '\0';
}

void seconds_text(char *out, size_t size, double seconds)
{
	static const struct {
		const char *unit;
		unsigned long long length;
	} units[] = { { "d", 86400 }, { "h", 3600 }, { "m", 60 }, { "s", 1 } };
	unsigned long long whole;
	size_t used = 0;

	if (!(seconds > 0)) {
		snprintf(out, size, "-");
		return;
	}
	if (seconds < 10) {
		char number[32];

		decimal_text(number, sizeof(number), seconds);
		snprintf(out, size, "%ss", number);
		return;
	}
	out[0] = '\0';
	whole = seconds < 1e12 ? (unsigned long long)(seconds + 0.5) : 1000000000000ULL;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		unsigned long long n = whole / units[i].length;

		whole %= units[i].length;
		if (n && used < size)
			used += snprintf(out + used, size - used, "%llu%s", n, units[i].unit);
	}
}

/* ---- JSON ---- */

void json_begin(struct json *json, FILE *out, bool one_line)
{
	*json = (struct json){ .out = out, .one_line = one_line };
}

void json_end(struct json *json)
{
	fputc('\n', json->out);
}

static void new_line(struct json *json)
{
	if (json->one_line)
		return;
	fputc('\n', json->out);
	for (unsigned int i = 0; i < json->depth; i++)
		fputs("  ", json->out);
}

static void write_string(FILE *out, const char *text)
{
	fputc('"', out);
	while (*text) {
		uint32_t c;
		size_t len = utf8_read(text, &c);

		if (!len)
			fputs(REPLACEMENT, out);
		else if (c == '"' || c == '\\')
			fprintf(out, "\\%c", (char)c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (is_control(c) || c == 0x2028 || c == 0x2029)
			fprintf(out, "\\u%04x", (unsigned int)c);
		else
			fwrite(text, 1, len, out);
		text += len ? len : 1;
	}
	fputc('"', out);
}

/* Whatever stands between the value before and this one. */
static void begin_value(struct json *json, const char *key)
{
	if (json->after_key) {
		json->after_key = false;
		return;
	}
	if (json->need_comma)
		fputs(json->one_line ? ", " : ",", json->out);
	if (json->depth)
		new_line(json);
	if (key) {
		write_string(json->out, key);
		fputs(": ", json->out);
	}
	json->need_comma = true;
}

static void open_value(struct json *json, const char *key, char bracket)
{
	begin_value(json, key);
	fputc(bracket, json->out);
	json->depth++;
	json->need_comma = false;
}

static void close_value(struct json *json, char bracket)
{
	json->depth--;
	if (json->need_comma) /* not empty */
		new_line(json);
	fputc(bracket, json->out);
	json->need_comma = true;
}

void json_open_object(struct json *json, const char *key)
{
	open_value(json, key, '{');
}

void json_close_object(struct json *json)
{
	close_value(json, '}');
}

void json_open_array(struct json *json, const char *key)
{
	open_value(json, key, '[');
}

void json_close_array(struct json *json)
{
	close_value(json, ']');
}

void json_text(struct json *json, const char *key, const char *value)
{
	begin_value(json, key);
	write_string(json->out, value);
}

void json_count(struct json *json, const char *key, uint64_t value)
{
	begin_value(json, key);
	fprintf(json->out, "%llu", (unsigned long long)value);
}

void json_number(struct json *json, const char *key, double value)
{
	char number[352]; /* the longest double has 309 digits before the point */

	if (!isfinite(value)) {
		json_null(json, key);
		return;
	}
	begin_value(json, key);
	decimal_text(number, sizeof(number), value);
	fputs(strcmp(number, "-0") == 0 ? "0" : number, json->out);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin_value(json, key);
	fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
	begin_value(json, key);
	fputs("null", json->out);
}

void json_key(struct json *json, const char *key)
{
	begin_value(json, key);
	json->after_key = true;
}

/* ---- tables ---- */

struct cell {
	bool set;
	char *text;
	const char *color;
	uint64_t count;
	double seconds;
	bool yes;
	const char *const *names;
	uint64_t *counts;
};

struct table {
	const struct column *columns;
	size_t width;
	struct cell *cells; /* row after row */
	size_t rows;
};

struct table *table_new(const struct column *columns, size_t count)
{
	struct table *table = need(calloc(1, sizeof(*table)));

	table->columns = columns;
	table->width = count;
	return table;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->rows * table->width; i++) {
		free(table->cells[i].text);
		free(table->cells[i].counts);
	}
	free(table->cells);
	free(table);
}

void table_row(struct table *table)
{
	size_t bytes = (table->rows + 1) * table->width * sizeof(*table->cells);

	table->cells = need(realloc(table->cells, bytes));
	memset(table->cells + table->rows * table->width, 0, table->width * sizeof(*table->cells));
	table->rows++;
}

static struct cell *last_row_cell(struct table *table, size_t column)
{
	struct cell *cell = &table->cells[(table->rows - 1) * table->width + column];

	cell->set = true;
	return cell;
}

void table_text(struct table *table, size_t column, const char *text)
{
	struct cell *cell = last_row_cell(table, column);

	free(cell->text);
	cell->text = need(strdup(text));
}

void table_count(struct table *table, size_t column, uint64_t count)
{
	last_row_cell(table, column)->count = count;
}

void table_seconds(struct table *table, size_t column, double seconds)
{
	last_row_cell(table, column)->seconds = seconds;
}

void table_bool(struct table *table, size_t column, bool yes)
{
	last_row_cell(table, column)->yes = yes;
}

void table_counts(struct table *table, size_t column, const char *const *names, const uint64_t *counts)
{
	struct cell *cell = last_row_cell(table, column);
	size_t n = 0;

	while (names[n])
		n++;
	free(cell->counts);
	cell->names = names;
	cell->counts = need(calloc(n + 1, sizeof(*counts)));
	memcpy(cell->counts, counts, n * sizeof(*counts));
}

void table_color(struct table *table, size_t column, const char *color)
{
	last_row_cell(table, column)->color = color;
}

/* "percent 7, ssh 1", or "-" when all are zero. To be freed. */
static char *counts_text(const struct cell *cell)
{
	char *text = NULL;
	size_t len;
	FILE *out = need(open_memstream(&text, &len));
	bool any = false;

	for (size_t i = 0; cell->names[i]; i++) {
		if (!cell->counts[i])
			continue;
		fprintf(out, "%s%s %llu", any ? ", " : "", cell->names[i], (unsigned long long)cell->counts[i]);
		any = true;
	}
	if (!any)
		fputc('-', out);
	fclose(out);
	return need(text);
}

/* What a person reads in the cell. To be freed. */
static char *cell_text(const struct column *column, const struct cell *cell)
{
	char buf[64];

	if (!cell->set)
		return need(strdup("-"));
	switch (column->kind) {
	case CELL_TEXT: /* as it is: libsmartcols writes what is not printable as \xNN */
		return need(strdup(cell->text));
	case CELL_COUNT:
		snprintf(buf, sizeof(buf), "%llu", (unsigned long long)cell->count);
		break;
	case CELL_SECONDS:
		seconds_text(buf, sizeof(buf), cell->seconds);
		break;
	case CELL_BOOL:
		snprintf(buf, sizeof(buf), "%s", cell->yes ? "yes" : "no");
		break;
	case CELL_COUNTS:
		return counts_text(cell);
	}
	return need(strdup(buf));
}

static void fill_line(const struct table *table, size_t row, struct libscols_line *line)
{
	size_t shown = 0;

	for (size_t i = 0; i < table->width; i++) {
		const struct cell *cell = &table->cells[row * table->width + i];
		char *text;

		if (!table->columns[i].title)
			continue;
		text = cell_text(&table->columns[i], cell);
		if (scols_line_refer_data(line, shown, text))
			need(NULL);
		if (cell->color)
			scols_cell_set_color(scols_line_get_cell(line, shown), cell->color);
		shown++;
	}
}

static int terminal_width(FILE *tty)
{
	struct winsize size;

	if (!tty || !isatty(fileno(tty)) || ioctl(fileno(tty), TIOCGWINSZ, &size) || size.ws_col < 20)
		return 0;
	return size.ws_col;
}

static struct libscols_table *to_scols(const struct table *table, FILE *tty)
{
	struct libscols_table *scols = need(scols_new_table());
	int width = terminal_width(tty);

	for (size_t i = 0; i < table->width; i++) {
		const struct column *column = &table->columns[i];
		int flags = column->kind == CELL_COUNT ? SCOLS_FL_RIGHT : 0;

		if (column->wrap)
			flags |= SCOLS_FL_WRAP;
		if (column->title)
			need(scols_table_new_column(scols, column->title, 0, flags));
	}
	for (size_t i = 0; i < table->rows; i++)
		fill_line(table, i, need(scols_table_new_line(scols, NULL)));
	scols_table_set_termforce(scols, width ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
	if (width)
		scols_table_set_termwidth(scols, width);
	scols_table_enable_colors(scols, tty && output_color(tty));
	return scols;
}

/* libsmartcols pads the last column and leaves the last line open. Takes `text`; the result is to be freed. */
static char *finish_lines(char *text)
{
	char *finished = need(malloc(strlen(text) + 2));
	char *out = finished, *line = finished;

	for (const char *in = text; *in; in++) {
		if (*in == '\n') {
			while (out > line && out[-1] == ' ')
				out--;
			line = out + 1;
		}
		*out++ = *in;
	}
	while (out > line && out[-1] == ' ')
		out--;
	if (out > line)
		*out++ = '\n';
	*out = '\0';
	free(text);
	return finished;
}

char *table_string(const struct table *table, FILE *tty)
{
	struct libscols_table *scols = to_scols(table, tty);
	char *text = NULL;

	if (table->rows == 0)
		text = need(strdup("")); /* libsmartcols gives nothing at all */
	else if (scols_print_table_to_string(scols, &text))
		need(NULL);
	scols_unref_table(scols);
	return finish_lines(text);
}

void table_print(const struct table *table, FILE *out)
{
	char *text = table_string(table, out);

	fputs(text, out);
	free(text);
}

static void cell_json(struct json *json, const struct column *column, const struct cell *cell)
{
	if (!cell->set) {
		json_null(json, column->key);
		return;
	}
	switch (column->kind) {
	case CELL_TEXT:
		json_text(json, column->key, cell->text);
		break;
	case CELL_COUNT:
		json_count(json, column->key, cell->count);
		break;
	case CELL_SECONDS:
		json_number(json, column->key, cell->seconds);
		break;
	case CELL_BOOL:
		json_bool(json, column->key, cell->yes);
		break;
	case CELL_COUNTS:
		json_open_object(json, column->key);
		for (size_t i = 0; cell->names[i]; i++)
			json_count(json, cell->names[i], cell->counts[i]);
		json_close_object(json);
		break;
	}
}

void table_json(const struct table *table, struct json *json, const char *key)
{
	json_open_array(json, key);
	for (size_t row = 0; row < table->rows; row++) {
		json_open_object(json, NULL);
		for (size_t i = 0; i < table->width; i++) {
			if (table->columns[i].key)
				cell_json(json, &table->columns[i], &table->cells[row * table->width + i]);
		}
		json_close_object(json);
	}
	json_close_array(json);
}

bool output_color(FILE *out)
{
	const char *no_color = getenv("NO_COLOR");

	return !(no_color && no_color[0]) && isatty(fileno(out));
}

int output_finish(int code)
{
	int saved = 0;

	if (fflush(stdout))
		saved = errno;
	else if (!ferror(stdout))
		return code;
	/* Not through log_error(): with --json it would write to the stream that just failed. */
	log_set_json(NULL);
	log_fail(EXIT_FAILED, NULL, "cannot write to standard output: %s", saved ? strerror(saved) : "write error");
	return code ? code : EXIT_FAILED;
}
