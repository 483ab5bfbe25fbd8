/* The file in which a low-bit copy of a model's weights (kernels/low.h) is kept between starts.
 *
 *     magic, version, type, matrices, fingerprint, bytes, layout, content, check   128 bytes, little-endian
 *     the copy                                                        `bytes` bytes, as low_plan lays it out
 *
 * Nothing of the layout is read from the file: the plan says what it has to be, `layout` is a checksum of
 * that plan, and `content` one of the copy. A file that differs in anything is not used. */
#ifndef SWIFTLET_CORE_MODEL_LOW_FILE_H
#define SWIFTLET_CORE_MODEL_LOW_FILE_H

#include "kernels/low.h"

enum { LOW_FILE_HEAD = 128 };

/* Whether size bytes at `file` (8-byte aligned) are the planned copy of the model with this fingerprint: the
 * copy then begins LOW_FILE_HEAD bytes on. False with the error set: path, field, found, expected. */
bool low_file_check(const void* file, size_t size, const struct low_table*, const char fingerprint[65],
                    const char* path, struct error*);
/* Writes the copy in `data` beside `path` and renames it: whoever opens the path finds a whole file or none.
 * True, too, when another process is writing the same file now. False with the error set; path is then as it
 * was. The folder must exist. */
bool low_file_write(const char* path, const struct low_table*, const char fingerprint[65], const void* data,
                    struct error*);

#endif
