/* A short game with a backend that calls nearly all it has: a prompt, a step of one row, trees with
 * sub-layers skipped, tapped, gone on from, and from states; commits, discards, a rewind. Two backends that
 * claim the same bits leave outcomes that memcmp finds equal. */
#pragma once

#include "tests/kernels/support_random_model.h"

enum { PLAY_VOCAB = 150, PLAY_CONTEXT = 64, PLAY_ROWS = 7, PLAY_DIM = 256, PLAY_PASSES = 7 };

struct outcome {
	float logits[PLAY_PASSES][PLAY_ROWS * PLAY_VOCAB];
	int32_t token[PLAY_PASSES][PLAY_ROWS];
	float tapped[PLAY_ROWS * PLAY_DIM]; /* by rows of the model's width */
	int committed;
	bool rewound;
};

/* The model has PLAY_VOCAB tokens, from two to eight blocks, and is no wider than PLAY_DIM. The backend stays
 * open. */
void play(struct backend*, struct outcome*);
