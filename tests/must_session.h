/* Models, engines and sessions that must open: an error ends the test with its message. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "swiftlet.h"

static inline swiftlet_model* must_open_model(const char* spec, const struct swiftlet_options* options) {
	char message[512] = "";
	swiftlet_model* model = swiftlet_model_open(spec, options, message, sizeof message);
	if (!model)
		fail_msg("%s", message);
	return model;
}

static inline swiftlet_engine* must_open_engine(swiftlet_model* model,
                                                const struct swiftlet_options* options) {
	char message[512] = "";
	swiftlet_engine* engine = swiftlet_engine_open(model, options, message, sizeof message);
	if (!engine)
		fail_msg("%s", message);
	return engine;
}

static inline swiftlet_session* must_open_session(swiftlet_engine* engine,
                                                  const struct swiftlet_options* options) {
	char message[512] = "";
	swiftlet_session* session = swiftlet_session_open(engine, options, message, sizeof message);
	if (!session)
		fail_msg("%s", message);
	return session;
}
