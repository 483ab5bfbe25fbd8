/* The commands of `swiftlet`: one a file. argv[0] is the command's name; the exit status is returned.
 * (bench_main is tools/bench.c's, serve_main tools/command_serve.c's.) */
#ifndef SWIFTLET_TOOLS_COMMAND_H
#define SWIFTLET_TOOLS_COMMAND_H

int command_run(int argc, char** argv);
int command_chat(int argc, char** argv);
int command_stream(int argc, char** argv);
int command_learn(int argc, char** argv);
int serve_main(int argc, char** argv);
int bench_main(int argc, char** argv);
int command_masks(int argc, char** argv);
int command_inspect(int argc, char** argv);
int command_tokenize(int argc, char** argv);

#endif
