/* Reads lines that a person types, by libedit or as they come. */
#include "tools/program/line_editor.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "tools/program/interrupt.h"
#ifdef SWIFTLET_HAS_LIBEDIT
#include <histedit.h>
#endif

struct line_editor {
	bool terminal;
	void (*wait)(void* user);
	void* user;
	char* line; /* malloc'd by getline, or libedit's text with its own size */
	size_t capacity;
#ifdef SWIFTLET_HAS_LIBEDIT
	EditLine* edit; /* NULL: lines are read as they come */
	History* history;
	const char* history_path;
	const char* prompt;
	bool marks_pastes; /* the terminal was asked to, for this line */
#endif
};

/* ---- without an editor ---------------------------------------------------------------------- */

static enum line_result read_plain(struct line_editor* e, const char* prompt, const char** line,
                                   size_t* size) {
	if (e->terminal)
		fputs(prompt, stdout);
	fflush(stdout);
	if (e->wait)
		e->wait(e->user);
	interrupt_input(true);
	const ssize_t n = getline(&e->line, &e->capacity, stdin);
	interrupt_input(false);
	if (n < 0)
		return LINE_END;
	*size = (size_t)n;
	while (*size > 0 && (e->line[*size - 1] == '\n' || e->line[*size - 1] == '\r'))
		e->line[--*size] = 0;
	*line = e->line;
	return LINE_READ;
}

/* ---- libedit -------------------------------------------------------------------------------- */

#ifdef SWIFTLET_HAS_LIBEDIT

enum { HISTORY_LINES = 1000, LONGEST_PASTE = 1 << 20 };

static const char* prompt_of(EditLine* edit) {
	struct line_editor* e;
	el_get(edit, EL_CLIENTDATA, &e);
	return e->prompt;
}

/* Reads one character from the terminal: 1; 0 at the end, -1 after a signal. The first read of a line asks
 * the terminal to mark what is pasted: keys that come before libedit has set the terminal's mode may be lost.
 */
static int read_character(EditLine* edit, wchar_t* out) {
	struct line_editor* e;
	mbstate_t state;
	memset(&state, 0, sizeof state);
	el_get(edit, EL_CLIENTDATA, &e);
	if (!e->marks_pastes) {
		e->marks_pastes = true;
		fputs("\033[?2004h", stdout);
		fflush(stdout);
	}
	if (e->wait)
		e->wait(e->user);
	for (;;) {
		/* A read alone would sleep through a signal that another thread takes, or that comes just before
		 * it. */
		enum { MILLISECONDS = 100 };
		struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
		char byte;
		while (!interrupted() && poll(&input, 1, MILLISECONDS) <= 0)
			;
		if (interrupted())
			return -1;
		const ssize_t n = read(STDIN_FILENO, &byte, 1);
		if (n < 0 && errno == EINTR && !interrupted())
			continue; /* the window changed its size */
		if (n <= 0)
			return (int)n;
		const size_t used = mbrtowc(out, &byte, 1, &state);
		if (used == (size_t)-2)
			continue; /* the rest of the character comes */
		if (used == (size_t)-1)
			*out = L'\uFFFD';
		return 1;
	}
}

/* Reads a pasted block up to its end, ESC [ 2 0 1 ~, as text: none of its characters is a command. */
static unsigned char insert_paste(EditLine* edit, int key) {
	static const wchar_t end[] = L"\033[201~";
	const size_t end_size = wcslen(end);
	wchar_t* text = NULL;
	size_t n = 0, capacity = 0;
	bool whole = false;
	(void)key;
	while (!whole && n < LONGEST_PASTE) {
		if (n + 2 > capacity) {
			wchar_t* const more = realloc(text, (capacity = 2 * capacity + 256) * sizeof *text);
			if (!more)
				break;
			text = more;
		}
		if (read_character(edit, &text[n]) != 1)
			break;
		n++;
		whole = n >= end_size && wcsncmp(text + n - end_size, end, end_size) == 0;
		if (whole)
			n -= end_size;
	}
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		const wchar_t c = text[i] == L'\r' ? L'\n' : text[i];
		if (c >= L' ' || c == L'\n' || c == L'\t')
			text[kept++] = c;
	}
	while (kept > 0 && text[kept - 1] == L'\n') /* the block's last line break does not send the message */
		kept--;
	if (kept > 0) {
		text[kept] = 0;
		el_winsertstr(edit, text);
	}
	free(text);
	return CC_REFRESH;
}

static bool open_edit(struct line_editor* e, const char* path) {
	HistEvent event;
	setlocale(LC_CTYPE, ""); /* the bytes and columns of a character */
	e->edit = el_init("swiftlet", stdin, stdout, stderr);
	e->history = e->edit ? history_init() : NULL;
	if (!e->history)
		return false;
	history(e->history, &event, H_SETSIZE, HISTORY_LINES);
	history(e->history, &event, H_SETUNIQUE, 1);
	e->history_path = path;
	if (path)
		history(e->history, &event, H_LOAD, path);
	el_set(e->edit, EL_CLIENTDATA, e);
	el_set(e->edit, EL_PROMPT, prompt_of);
	el_set(e->edit, EL_EDITOR, "emacs");
	el_set(e->edit, EL_HIST, history, e->history);
	el_set(e->edit, EL_GETCFN, read_character);
	/* a wide name, because el_set never frees the copies that it makes of a narrow name and help */
	el_wset(e->edit, EL_ADDFN, L"insert-paste", L"Insert a pasted block", insert_paste);
	el_set(e->edit, EL_BIND, "\\e[200~", "insert-paste", NULL);
	el_set(e->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
	el_source(e->edit, NULL); /* ~/.editrc, the user's own keys */
	return true;
}

static enum line_result read_edited(struct line_editor* e, const char* prompt, const char** line,
                                    size_t* size) {
	int n = 0;
	e->prompt = prompt;
	e->marks_pastes = false;
	interrupt_input(true);
	const char* const text = el_gets(e->edit, &n);
	interrupt_input(false);
	fputs("\033[?2004l", stdout);
	fflush(stdout);
	if (!text || n <= 0) {
		const bool cancelled = interrupted() && !terminated();
		if (cancelled) {
			fputs("^C\n", stdout);
			el_reset(e->edit);
		}
		return cancelled ? LINE_CANCELLED : LINE_END;
	}
	*size = (size_t)n;
	free(e->line);
	e->line = malloc(*size + 1);
	if (!e->line)
		return LINE_END;
	memcpy(e->line, text, *size);
	while (*size > 0 && (e->line[*size - 1] == '\n' || e->line[*size - 1] == '\r'))
		--*size;
	e->line[*size] = 0;
	*line = e->line;
	return LINE_READ;
}

#endif

/* ---- both ----------------------------------------------------------------------------------- */

struct line_editor* line_editor_open(bool terminal, const char* path, void (*wait)(void* user), void* user) {
	struct line_editor* const e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->terminal = terminal;
	e->wait = wait;
	e->user = user;
#ifdef SWIFTLET_HAS_LIBEDIT
	if (terminal && !open_edit(e, path)) {
		line_editor_close(e);
		return NULL;
	}
#else
	(void)path;
#endif
	if (terminal)
		setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees each line that was typed ahead */
	return e;
}

void line_editor_close(struct line_editor* e) {
	if (!e)
		return;
#ifdef SWIFTLET_HAS_LIBEDIT
	if (e->edit)
		el_end(e->edit);
	if (e->history)
		history_end(e->history);
#endif
	free(e->line);
	free(e);
}

enum line_result line_editor_read(struct line_editor* e, const char* prompt, const char** line,
                                  size_t* size) {
#ifdef SWIFTLET_HAS_LIBEDIT
	if (e->edit)
		return read_edited(e, prompt, line, size);
#endif
	return read_plain(e, prompt, line, size);
}

void line_editor_remember(struct line_editor* e, const char* text) {
#ifdef SWIFTLET_HAS_LIBEDIT
	HistEvent event;
	if (!e->history || !*text)
		return;
	history(e->history, &event, H_ENTER, text);
	if (e->history_path)
		history(e->history, &event, H_SAVE, e->history_path);
#else
	(void)e;
	(void)text;
#endif
}
