/* Any bytes as the file of a low-bit copy: refused with a message, unless they are the file; and the real
 * file with any bytes of it changed, or cut: refused unless nothing changed. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/model/low_copy.h"
#include "core/model/low_file.h"

static struct low_copy copy; /* of a small model */
static struct model* model;
static unsigned char *file, *scratch;
static size_t size;

/* What low_file_write makes of it. */
static void open_once(void) {
	struct error error;
	char path[] = "/tmp/swiftlet-fuzz-low-XXXXXX";
	const int fd = mkstemp(path);
	const struct low_wish wish = {.form = {.bits = 4}, .threads = 1};
	model = model_open("synth:layers=1,dim=32,heads=1,kv-heads=1,ffn=32,vocab=32,dtype=f16", NULL, &error);
	if (fd < 0 || !model || !low_copy_open(&copy, model, &wish, &error) ||
	    !low_file_write(path, &copy.table, model->fingerprint, copy.memory, &error))
		abort();
	close(fd);
	FILE* made = fopen(path, "rb");
	size = LOW_FILE_HEAD + copy.table.bytes;
	file = aligned_alloc(64, (size + 63) / 64 * 64);
	scratch = aligned_alloc(64, (size + 63) / 64 * 64);
	if (!made || fread(file, 1, size, made) != size)
		abort();
	fclose(made);
	unlink(path);
}

static void check(const unsigned char* bytes, size_t n) {
	struct error error = {""};
	const bool right = n == size && memcmp(bytes, file, size) == 0;
	if (low_file_check(bytes, n, &copy.table, model->fingerprint, "fuzz", &error) != right)
		abort();
	if (!right && !memchr(error.message, 0, sizeof error.message))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
	if (!file)
		open_once();
	/* a block of its own, so that a read beyond it is seen */
	unsigned char* own = aligned_alloc(8, n / 8 * 8 + 8);
	memcpy(own, data, n);
	check(own, n);
	free(own);
	/* pairs of a place and a byte, the first of them how much is left */
	memcpy(scratch, file, size);
	size_t left = size;
	for (size_t i = 0; i + 4 <= n; i += 4) {
		const size_t at = (size_t)(data[i] | data[i + 1] << 8 | data[i + 2] << 16);
		if (i == 0 && data[3] % 2)
			left = at % (size + 1);
		else
			scratch[at % size] ^= data[i + 3];
	}
	check(scratch, left);
	return 0;
}
