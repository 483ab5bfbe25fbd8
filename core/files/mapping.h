/* A file as read-only memory. Passes read weights directly from it. */
#pragma once

#include "kernels/backend.h"

struct mapping {
	const uint8_t* data; /* (size) NULL when nothing is mapped */
	size_t size;
	char* path; /* owned; does not move with the struct */
};

/* Maps a regular file that is not empty. False with the error set. Close with mapping_close. */
bool mapping_open(struct mapping*, const char* path, struct error*);
void mapping_close(struct mapping*);
/* Asks the kernel to read the file's pages ahead, because the whole file is about to be read. */
void mapping_will_need(const struct mapping*);
