/* How a vendor's API says an answer: what the scheduler's thread calls while one is made, whole or in a
 * stream.
 *
 * A request of any vendor becomes the same api_request (openai.h), runs the same way and is told by its
 * voice. OpenAI's chats and completions need no memory of what was said; the others', whose events number and
 * close what they open, keep a story. */
#ifndef SWIFTLET_STREAMS_SERVICE_REPLY_VOICE_H
#define SWIFTLET_STREAMS_SERVICE_REPLY_VOICE_H

#include "streams/service/openai.h"
#include "streams/service/openai_reply.h"

struct story_voice;
struct reply_voice {
	const char* id; /* what an answer's name begins with */
	bool (*read)(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
	/* Streams, a choice at a time; `detail` as in openai_reply.h. part: reasoning before text. */
	void (*first)(struct text*, const struct reply_head*, int index);
	void (*part)(struct text*, const struct reply_head*, const struct reply_choice*, const char* detail);
	void (*calls)(struct text*, const struct reply_head*, int index, const struct tool_call*, int first,
	              int n);
	void (*last)(struct text*, const struct reply_head*, const struct reply_choice*, const char* detail);
	/* All choices have ended; an error ends a stream early. */
	void (*end)(struct text*, const struct reply_head*, const struct reply_usage*, const struct api_error*);
	void (*whole)(struct text*, const struct reply_head*, const struct reply_choice*, int n,
	              const struct reply_usage*);
	const struct story_voice* story; /* NULL: it has none */
};

extern const struct reply_voice voice_completion, voice_chat, voice_responses, voice_messages,
    voice_embeddings;

/* What was said of an answer so far. Zeroed to begin with. */
enum story_part { STORY_NOTHING, STORY_REASONING, STORY_TEXT };
struct reply_story {
	int events, items;
	enum story_part open;
	struct text text; /* of the item that is open */
	struct text said; /* the items that are closed, as JSON, commas between */
	enum swiftlet_stop stop;
	int n_calls, stop_string;
};
void story_free(struct reply_story*);

/* How a voice with a story says a thought or a text: that it begins, more of it, and that it ends, with the
 * whole item (JSON, added to `item`). The story's `open` says which of both it is. A call is an item at once.
 */
struct story_voice {
	void (*open)(struct text*, const struct reply_head*);
	void (*more)(struct text*, const struct reply_head*, const char* text, size_t size);
	void (*close)(struct text*, const struct reply_head*, struct text* item);
	void (*call)(struct text*, const struct reply_head*, const struct tool_call*, struct text* item);
	bool never_empty; /* an answer without a word is an item all the same */
};
/* Three of such a voice's routines. */
void story_part(struct text*, const struct reply_head*, const struct reply_choice*, const char* detail);
void story_calls(struct text*, const struct reply_head*, int index, const struct tool_call*, int first,
                 int n);
void story_last(struct text*, const struct reply_head*, const struct reply_choice*, const char* detail);
#define STORY(how) .story = how, .part = story_part, .calls = story_calls, .last = story_last
/* A whole answer becomes the story that a stream would have told; whether there was memory for it. */
bool story_whole(const struct reply_head*, const struct reply_choice*);
bool story_failed(const struct reply_story*);

#endif
