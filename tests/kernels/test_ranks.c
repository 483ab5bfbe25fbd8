/* Several ranks give the bits of one. Here a rank is a thread, and communication is memory between barriers.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ranks.h"
#include "tests/kernels/support_play.h"
#include "tests/must.h"

enum { VOCAB = PLAY_VOCAB, CONTEXT = PLAY_CONTEXT, MOST_RANKS = 4, DIM = 64 };

struct group {
	pthread_barrier_t barrier;
	int ranks;
	void* reported;
	const struct shared_rows* shared[MOST_RANKS];
};

struct thread_group {
	struct process_group head;
	struct group* group;
};

static bool no_room_needed(struct process_group* e, size_t floats) {
	(void)e, (void)floats;
	return true;
}

static void thread_broadcast(struct process_group* group, void* bytes, size_t size) {
	struct group* g = ((struct thread_group*)group)->group;
	if (group->rank == 0)
		g->reported = bytes;
	pthread_barrier_wait(&g->barrier);
	if (group->rank > 0)
		memcpy(bytes, g->reported, size);
	pthread_barrier_wait(&g->barrier);
}

static void thread_gather(struct process_group* group, const struct shared_rows* shared, int count, int n) {
	struct group* g = ((struct thread_group*)group)->group;
	g->shared[group->rank] = shared;
	pthread_barrier_wait(&g->barrier);
	for (int r = 0; r < g->ranks; r++)
		for (int i = 0; i < count && r != group->rank; i++) {
			const int64_t begin = share_first(shared[i].rows, r, g->ranks);
			const int64_t end = share_first(shared[i].rows, r + 1, g->ranks);
			for (int j = 0; j < n; j++)
				memcpy(shared[i].out + (size_t)j * shared[i].stride + begin,
				       g->shared[r][i].out + (size_t)j * shared[i].stride + begin,
				       (size_t)(end - begin) * sizeof(float));
		}
	pthread_barrier_wait(&g->barrier);
}

struct rank {
	struct thread_group group;
	const struct weight_table* weights;
	pthread_t thread;
};

static struct backend* open_rank(struct rank* rank) {
	const struct backend_options options = {
	    .threads = 1, .context = CONTEXT, .group = rank->group.group ? &rank->group.head : NULL};
	return must_open(cpu_open, rank->weights, &options);
}

static void* follow(void* user) {
	struct rank* rank = user;
	struct backend* b = open_rank(rank);
	ranks_follow(b, &rank->group.head);
	b->close(b);
	return NULL;
}

static void same_bits(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                      int ranks) {
	struct random_model* model = random_model_make(shape, types, n_types, with, 5);
	struct rank one = {.weights = &model->weights}, rank[MOST_RANKS];
	struct outcome *alone = calloc(1, sizeof *alone), *together = calloc(1, sizeof *together);
	struct group group = {.ranks = ranks};
	struct error error;
	struct backend* b = open_rank(&one);
	play(b, alone);
	b->close(b);
	assert_true(alone->rewound);
	assert_int_equal(alone->committed, 21);
	pthread_barrier_init(&group.barrier, NULL, (unsigned)ranks);
	for (int r = 0; r < ranks; r++) {
		const struct process_group head = {.rank = r,
		                                   .ranks = ranks,
		                                   .reserve = no_room_needed,
		                                   .broadcast = thread_broadcast,
		                                   .gather = thread_gather};
		rank[r] = (struct rank){.group = {.head = head, .group = &group}, .weights = &model->weights};
		if (r > 0)
			assert_int_equal(pthread_create(&rank[r].thread, NULL, follow, &rank[r]), 0);
	}
	b = open_rank(&rank[0]);
	assert_true(ranks_lead(b, &rank[0].group.head, &error));
	play(b, together);
	b->close(b);
	for (int r = 1; r < ranks; r++)
		pthread_join(rank[r].thread, NULL);
	pthread_barrier_destroy(&group.barrier);
	assert_memory_equal(alone, together, sizeof *alone);
	free(alone);
	free(together);
	random_model_free(model);
}

static void shares_are_whole(void** state) {
	(void)state;
	for (int ranks = 1; ranks <= 8; ranks++)
		for (int64_t rows = 1; rows < 200; rows++) {
			assert_int_equal(share_first(rows, 0, ranks), 0);
			assert_int_equal(share_first(rows, ranks, ranks), rows);
			for (int r = 0; r < ranks; r++)
				assert_true(share_first(rows, r, ranks) <= share_first(rows, r + 1, ranks));
		}
}

static void ranks_give_the_bits_of_one(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
	const struct model_shape shape = random_shape(3, DIM, 4, 2, 16, 96, VOCAB);
	for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
		same_bits(&shape, types, 3, WITH_BIASES, ranks);
}

static void experts_too(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F16};
	struct model_shape shape = random_shape(4, DIM, 4, 4, 16, 96, VOCAB);
	shape.n_experts = 5;
	shape.experts_used = 2;
	shape.expert_ffn = 48;
	same_bits(&shape, types, 1, WITH_HEAD_NORMS | WITH_TIED_HEAD, 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shares_are_whole),
	    cmocka_unit_test(ranks_give_the_bits_of_one),
	    cmocka_unit_test(experts_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
