/* The commands of `swiftlet`: one a file. argv[0] is the command's name; the exit status is returned. */
#pragma once

int command_run(int argc, char** argv);
int command_chat(int argc, char** argv);
int command_stream(int argc, char** argv);
int command_pull(int argc, char** argv);
int command_list(int argc, char** argv);
int command_learn(int argc, char** argv);
int command_serve(int argc, char** argv);
int command_bench(int argc, char** argv);
int command_masks(int argc, char** argv);
int command_inspect(int argc, char** argv);
int command_tokenize(int argc, char** argv);
