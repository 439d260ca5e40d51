/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What commands print: tables for people and JSON for programs, both from one description.
 *
 * A table is an array of columns and rows of cells. A column has a title (for people) and a key (for JSON); one without
 * a title is in JSON only, one without a key is for people only. Whatever bytes come in, what goes out is valid UTF-8.
 */
#ifndef USER_OUTPUT_H
#define USER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Copies `text` so that it is safe on a terminal and in a log: control characters become \xNN, bytes that are not
 * UTF-8 become U+FFFD. Always terminated, cut at a whole character when `size` is too small.
 */
void text_clean(char *out, size_t size, const char *text);

/* Reads one character of UTF-8; returns its length, or 0 when the bytes there are not UTF-8 (then skip one). */
size_t utf8_read(const char *text, uint32_t *character);

/* "5s", "1m30s", "2h", "1.25s" from seconds; "-" for 0 or less. */
void seconds_text(char *out, size_t size, double seconds);

/* A JSON document being written. Errors of the stream stay in the stream: ferror(). */
struct json {
	FILE *out;
	bool one_line; /* no line breaks inside */
	bool need_comma;
	bool after_key;
	unsigned int depth;
};

void json_begin(struct json *json, FILE *out, bool one_line);
void json_end(struct json *json);

/* `key` is NULL inside an array and for the outermost value. */
void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);
void json_text(struct json *json, const char *key, const char *value);
void json_count(struct json *json, const char *key, uint64_t value);
void json_number(struct json *json, const char *key, double value); /* three decimals; null when not finite */
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* The key alone: the value is the next one that is written without a key. */
void json_key(struct json *json, const char *key);

enum cell_kind {
	CELL_TEXT, /* nothing set: "-" and null */
	CELL_COUNT,
	CELL_SECONDS, /* "4m30s" and 270 */
	CELL_BOOL,    /* "yes", "no" and true, false */
	CELL_COUNTS,  /* "percent 7, ssh 1" and {"percent": 7, ..., "ssh": 1}: zeros are in JSON only */
};

struct column {
	const char *title;
	const char *key;
	enum cell_kind kind;
	bool wrap; /* may be broken into lines on a narrow terminal */
};

struct table;

/* `columns` must outlive the table. Memory that runs out ends the program: there is nothing to clean up here. */
struct table *table_new(const struct column *columns, size_t count);
void table_free(struct table *table);

/* Begins a row; the setters below fill the cells of the last one. */
void table_row(struct table *table);
void table_text(struct table *table, size_t column, const char *text);
void table_count(struct table *table, size_t column, uint64_t count);
void table_seconds(struct table *table, size_t column, double seconds);
void table_bool(struct table *table, size_t column, bool yes);
/* `names` ends with NULL; counts[i] belongs to names[i]. */
void table_counts(struct table *table, size_t column, const char *const *names, const uint64_t *counts);
/* Colour of a text cell when colours are on: a name of libsmartcols ("red", "green"). */
void table_color(struct table *table, size_t column, const char *color);

/* The table for people, without trailing blanks; to be freed. Fits the terminal if `tty` is one, else is not cut. */
char *table_string(const struct table *table, FILE *tty);
void table_print(const struct table *table, FILE *out);

/* The rows as an array of objects. */
void table_json(const struct table *table, struct json *json, const char *key);

/* Colours: only on a terminal, and never with NO_COLOR. */
bool output_color(FILE *out);

/* Flushes standard output; `code`, or EXIT_FAILED with a message when something could not be written. */
int output_finish(int code);

#endif
