/* A plugin of qemu-aarch64 (7.2) that counts instructions between the marks that products.c sets, and prints
 * them. The declarations are those of qemu-plugin.h, which Debian does not pack. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*)(uint64_t, struct qemu_plugin_tb*));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn*, int add, void*, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn*, void (*)(unsigned, void*), int, void*);

int qemu_plugin_version = 1;

static const uint32_t mark = 0xd5032f1f; /* hint #120, which does nothing */
static uint64_t count;

static void marked(unsigned processor, void* user) {
	static int inside;
	(void)processor;
	(void)user;
	if (inside)
		printf("%" PRIu64 "\n", count - 1); /* the mark itself */
	fflush(stdout);
	inside = !inside;
	count = 0;
}

static void translated(uint64_t id, struct qemu_plugin_tb* block) {
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
		struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
		qemu_plugin_register_vcpu_insn_exec_inline(instruction, 0, &count, 1);
		if (memcmp(qemu_plugin_insn_data(instruction), &mark, sizeof mark) == 0)
			qemu_plugin_register_vcpu_insn_exec_cb(instruction, marked, 0, NULL);
	}
}

int qemu_plugin_install(uint64_t id, const void* info, int argc, char** argv);
int qemu_plugin_install(uint64_t id, const void* info, int argc, char** argv) {
	(void)info;
	(void)argc;
	(void)argv;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
