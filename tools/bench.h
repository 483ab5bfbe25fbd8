/* `swiftlet bench`: the parts, and what they share.
 *
 * A `runner` drives a session through its inner door (optimizer/session.h), so that every second is known
 * to be of a model pass of some kind, or of the host between passes. Two runners on one engine, advanced in
 * turns, see the same machine. */
#ifndef SWIFTLET_TOOLS_BENCH_H
#define SWIFTLET_TOOLS_BENCH_H

#include <cjson/cJSON.h>

#include "optimizer/session.h"
#include "tools/options.h"

int bench_main(int argc, char** argv);
/* argv[0] is the part's name. The exit status. */
int bench_decode_main(int argc, char** argv);
int bench_swift_main(int argc, char** argv);
int bench_learn_main(int argc, char** argv);
int bench_search_main(int argc, char** argv);
