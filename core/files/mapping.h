/* A file as read-only memory. Weights are computed from where they lie in it. */
#ifndef SWIFTLET_CORE_FILES_MAPPING_H
#define SWIFTLET_CORE_FILES_MAPPING_H

#include "kernels/backend.h"

struct mapping {
	const uint8_t* data; /* (size) NULL when nothing is mapped */
	size_t size;
	char* path; /* owned; stays where it is when the struct is moved */
};

/* Maps a regular file that is not empty. False with the error set. Close with mapping_close. */
bool mapping_open(struct mapping*, const char* path, struct error*);
void mapping_close(struct mapping*);
/* Asks for the file's pages before they are needed: it is about to be read as a whole. */
void mapping_will_need(const struct mapping*);

#endif
