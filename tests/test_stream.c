// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams: the reader of bpf/stream.h, the very code that runs in the kernel; and `error-event`, `drop-done`, `garble` and
 * `how: clean`, how they are written and what is said of them.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "bpf/stream.h"
#include "tests/random_rules.h"
#include "tests/rule_words.h"

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* One letter a byte: P begins a payload, D is the last of what says that the stream is at its end, O ends an event. */
static const char *marks(enum chaos_stream_coding coding, const char *text, unsigned int *events)
{
	static const char letters[] = { [STREAM_NOTHING] = '.', [STREAM_PAYLOAD] = 'P', [STREAM_DONE] = 'D', [STREAM_OVER] = 'O' };
	static char met[400];
	struct chaos_http_reader bench = { 0 };
	struct chaos_stream_reader s = { 0 };
	const size_t length = strlen(text);

	stream_begins(&s, 7, coding, coding == CHAOS_STREAM_COUNTED ? length : 0);
	for (size_t i = 0; i < length; i++)
		met[i] = letters[stream_byte(&s, &bench, text[i])];
	met[length] = 0;
	*events = s.events;
	return met;
}

static void expect_marks(enum chaos_stream_coding coding, const char *text, const char *wanted, unsigned int count)
{
	unsigned int events;
	const char *got = marks(coding, text, &events);

	cr_expect_str_eq(got, wanted, "\n%s\n%s, not\n%s", text, got, wanted);
	cr_expect_eq(events, count, "%s: %u events", text, events);
}

Test(stream, events)
{
	expect_marks(CHAOS_STREAM_TO_THE_END, "data: x\n\n", "......P.O", 1);
	expect_marks(CHAOS_STREAM_COUNTED, "data:x\r\n\r\n", ".....P...O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "event: delta\ndata: x\n\n", "...................P.O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, ": ping\n\nid: 1\n\ndat: x\n\ndatax: x\n\n data: x\n\n",
		     "...........................................", 0);
	expect_marks(CHAOS_STREAM_TO_THE_END, "data: a\ndata: b\n\n", "......P.......P.O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "data: x\n", "......P.", 0);
}

Test(stream, ends)
{
	expect_marks(CHAOS_STREAM_TO_THE_END, "data: [DONE]\n\n", "......P....D.O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "data: [DONT]\n\n", "......P......O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "data: a [DONE]\n\n", "......P........O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "event: message_stop\ndata: {}\n\n", "..................D.....D.P..O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "event: message_start\ndata: {}\n\n", "...........................P..O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "event:message-end\n\nevent: a\ndata: {}\n\n",
		     "................D.................P..O", 1);
	expect_marks(CHAOS_STREAM_TO_THE_END, "event: response.completed\n", "........................D.", 0);
}

Test(stream, lines_of_json)
{
	expect_marks(CHAOS_STREAM_TO_THE_END, "{\"a\": \"data: x\"}\n{}\n", "P...............OP.O", 2);
}

Test(stream, in_chunks)
{
	expect_marks(CHAOS_STREAM_CHUNKED, "9\r\ndata: x\n\n\r\n0\r\n\r\n", ".........P.O.......", 1);
	/* The coding's own lines are none of the stream's, wherever they stand. */
	expect_marks(CHAOS_STREAM_CHUNKED, "3\r\ndat\r\n2;x=y\r\na:\r\n4\r\n x\n\n\r\n", ".......................P.O..", 1);
	expect_marks(CHAOS_STREAM_CHUNKED, "nothing of the kind\ndata: x\n\n", ".............................", 0);
	expect_marks(CHAOS_STREAM_CHUNKED, "fffffffff\r\ndata: x\n\n", "....................", 0);
}

Test(stream, numbers_go_round)
{
	struct chaos_http_reader bench = { 0 };
	struct chaos_stream_reader s = { 0 };
	static const char text[] = "data: x\n\ndata: [DONE]";

	stream_begins(&s, 0xfffffffaU, CHAOS_STREAM_TO_THE_END, 0);
	for (size_t i = 0; text[i]; i++)
		stream_byte(&s, &bench, text[i]);
	cr_expect_eq(s.line_from, 3);
	cr_expect_eq(s.next, 0xfffffffaU + (uint32_t)strlen(text));
}

/* ---- the rule language -------------------------------------------------------------------------------------------- */

#define FAULT(fault) DOC("{ ports: 1 }", fault, "")

Test(stream, mistakes_are_told_with_their_place)
{
	expect_wrong(FAULT("{ break-after: { bytes: 4KiB, how: clean } }"),
		     "t:5:45: 'how: clean' needs 'chunks', as in { chunks: 12, how: clean }: an answer that ends in the middle "
		     "of one is not clean");
	expect_wrong(FAULT("{ break-after: { chunks: 2, how: claen } }"), "t:5:43: unknown how 'claen', did you mean 'clean'?");
	expect_wrong(FAULT("{ half-open: { idle: 1s, how: clean } }"),
		     "t:5:40: invalid how 'clean': a connection that was forgotten is answered by 'reset', or not ('stall')");
	expect_wrong(FAULT("{ error-event: overlaoded }"), "t:5:25: unknown error-event 'overlaoded', did you mean 'overloaded'?");
	expect_wrong(FAULT("{ error-event: { chunks: 2 } }"),
		     "t:5:25: 'error-event' needs 'type', as in { type: overloaded, chunks: 12 }");
	expect_wrong(FAULT("{ error-event: { type: overloaded, chunks: 0 } }"),
		     "t:5:53: invalid chunks '0', expected a whole number from 1 to 1000000");
	expect_wrong(FAULT("{ garble: { } }"), "t:5:20: 'garble' needs 'every', as in { every: 5 }");
	expect_wrong(FAULT("{ garble: 5 }"), "t:5:20: invalid garble '5', expected true, or a map such as { every: 5 }");
	expect_wrong(FAULT("{ drop-done: false }"), "t:5:23: 'drop-done: false' does nothing, leave it out");
	expect_wrong(FAULT("{ drop-done: true, garble: true }"),
		     "t:5:10: 'drop-done' goes with no other fault of answers, and there is one more");
	expect_wrong(FAULT("{ drop-done: true, status: 503 }"),
		     "t:5:10: 'drop-done' goes with no other fault of answers, and there is one more");
	expect_wrong(FAULT("{ garble: true, drop: 5% }"), "t:5:10: 'garble' goes with no other fault but 'delay'");
	expect_wrong(DOC("{ ports: 1, side: server }", "{ break-after: { chunks: 3, how: clean } }", ""),
		     "t:4:28: 'break-after' is for the client: its requests are read where they leave; leave 'side' out and "
		     "name the clients");
}

static void expect_words(const char *fault, const char *words)
{
	char source[400], sentence[400];

	snprintf(source, sizeof(source), FAULT("%s"), fault);
	snprintf(sentence, sizeof(sentence),
		 "a: HTTP requests from any process to port 1 anywhere %s; on all requests; ends after 1 min.", words);
	expect_sentence(source, sentence);
}

Test(stream, in_words)
{
	expect_words("{ break-after: { chunks: 12, how: clean } }", "get streams that end after 12 chunks as if that were all");
	expect_words("{ error-event: overloaded }", "get streams that end in an error event (overloaded)");
	expect_words("{ error-event: { type: server-error, chunks: 1 } }",
			"get streams that end in an error event (server-error) after 1 chunk");
	expect_words("{ drop-done: true }", "get streams that never say that they are over");
	expect_words("{ garble: true }", "get every chunk of a stream garbled");
	expect_words("{ garble: { every: 5 } }", "get one chunk in 5 of a stream garbled");
}

/* ---- what an error event says --------------------------------------------------------------------------------------- */

Test(stream, texts_are_events_and_get_shorter)
{
	unsigned int events;

	for (int error = 0; error < STREAM_ERROR_COUNT; error++) {
		char source[200];
		struct made made;

		snprintf(source, sizeof(source), FAULT("{ error-event: %s }"), stream_error_names[error]);
		made = make(source);
		cr_expect_geq(made.tables->forms_count, 2);
		for (size_t i = 0; i < made.tables->forms_count; i++) {
			const struct chaos_form *form = &made.tables->forms[i];
			char text[CHAOS_FORM_TEXT + 1];

			snprintf(text, sizeof(text), "%.*s", form->length, form->text);
			marks(CHAOS_STREAM_TO_THE_END, text, &events);
			cr_expect_eq(events, 1, "%s", text);
			cr_expect_str_eq(text + strlen(text) - 3, "}\n\n");
			cr_expect(i == 0 || form->length < made.tables->forms[i - 1].length, "%s", text);
			cr_expect_eq(form->filler, '\n');
		}
		unmake(&made);
	}
}
