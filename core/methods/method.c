/* The table of methods, and what each needs of a model. */
#include "core/methods/method.h"

/* Thresholds and lengths come from the papers: SWIFT's code (0.8, 25), Draft & Verify (12), CLaSp (0.7),
 * AdaSPEED's appendix (0.8), Kangaroo section 4.1 (0.6, 6). */
const struct method methods[SWIFTLET_METHODS] = {
    /* the tokens that followed the last ones earlier in the text (prompt lookup) */
    [SWIFTLET_NGRAM] = {&ngram_drafter, .most = 10},
    /* a window of guesses, all positions at once (parallel decoding) */
    [SWIFTLET_JACOBI] = {&jacobi_drafter, .most = 8},
    /* a window of guesses that fills a pool of n-grams */
    [SWIFTLET_LOOKAHEAD] = {&lookahead_drafter, .tree = TREE_GUESSED, .most = 2},
    /* skipped sub-layers, evenly spaced */
    [SWIFTLET_UNIFORM] = {&skip_drafter, MASK_UNIFORM, TREE_WIDE, STOP_MARGINAL, 0.8f, .most = 25},
    /* skipped sub-layers, drawn once by --seed */
    [SWIFTLET_RANDOM] = {&skip_drafter, MASK_RANDOM, TREE_WIDE, STOP_MARGINAL, 0.8f, .most = 25},
    /* a mask found offline (--mask), adaptive stop (Draft & Verify) */
    [SWIFTLET_SELF_SPEC] = {&skip_drafter, MASK_GIVEN, TREE_CHAIN, STOP_MARGINAL, 0.8f, .adapts = true,
                            .most = 12},
    /* a mask by dynamic programming after each verification */
    [SWIFTLET_CLASP] = {&skip_drafter, MASK_PROGRAMMED, TREE_CHAIN, STOP_MARGINAL, 0.7f, .most = 25},
    /* the first --exit-block blocks and the head, --speculations steps */
    [SWIFTLET_LAYERSKIP] = {&exit_drafter},
    /* an exit's drafts until their joint probability is too low */
    [SWIFTLET_ADASPEED] = {&exit_drafter, MASK_NONE, TREE_CHAIN, STOP_PRODUCT, 0.8f, .adapts = true},
    /* an exit with a trained adapter (--adapter), double early exit */
    [SWIFTLET_KANGAROO] = {&adapter_drafter, MASK_NONE, TREE_CHAIN, STOP_MARGINAL, 0.6f, .at_most = true,
                           .most = 6},
    /* the --children likeliest next tokens at --exit-block run with the present one */
    [SWIFTLET_PPD] = {&exit_drafter, .tree = TREE_CHILDREN, .most = 1},
};

int method_most(const struct swiftlet_options* o) {
	const int own = method_of(o)->most > 0 ? method_of(o)->most : o->drafting.max_draft;
	const int most = o->standalone.speculations > 0 ? o->standalone.speculations : own;
	return most < MAX_DRAFT ? most : MAX_DRAFT;
}

bool method_has_auxiliary_weights(const struct method* method, const struct engine* engine,
                                  struct error* error) {
	const int blocks = engine->model->weights.shape.n_blocks;
	const char* const name = engine->model->name;
	if (method->drafter == &exit_drafter && blocks < 2)
		return error_set(error, "%s has %d block: an exit needs 2 at least", name, blocks);
	if (method->drafter == &skip_drafter && blocks < 3)
		return error_set(error, "%s has %d blocks: the first and the last are never skipped, so 3 are needed",
		                 name, blocks);
	const struct model_shape* shape = &engine->model->weights.shape;
	if (method->mask == MASK_PROGRAMMED && (shape_needs_tokens(shape) || shape->parallel))
		return error_set(error,
		                 "--method %s starts passes in the middle of the model: the layers of %s also read "
		                 "tokens or other layers' keys, so it cannot",
		                 method_name((enum swiftlet_method)(method - methods)), name);
	return method->drafter != &adapter_drafter || engine->side ||
	       error_set(error,
	                 "--method %s needs an adapter for %s: give --adapter FILE (tools/train/kangaroo.py "
	                 "makes one)",
	                 method_name((enum swiftlet_method)(method - methods)), name);
}

static bool check_exit(const struct swiftlet_options* o, const struct engine* engine, struct error* error) {
	const int blocks = engine->model->weights.shape.n_blocks;
	if (o->standalone.exit_block >= blocks)
		return error_set(error, "--exit-block %d: expected 1 to %d (%s has %d blocks)",
		                 o->standalone.exit_block, blocks - 1, engine->model->name, blocks);
	if (o->drafting.method == SWIFTLET_KANGAROO && o->standalone.exit_block > 0 &&
	    o->standalone.exit_block != engine->adapter.exit_block)
		return error_set(error, "--exit-block %d: the adapter %s was trained for block %d",
		                 o->standalone.exit_block, o->standalone.adapter, engine->adapter.exit_block);
	if (o->drafting.method == SWIFTLET_PPD && o->standalone.heads[0] && o->standalone.exit_block > 0 &&
	    !engine->heads.weight[o->standalone.exit_block])
		return error_set(
		    error, "--heads %s has no head for --exit-block %d: tools/train/ppd.py makes one for each block",
		    o->standalone.heads, o->standalone.exit_block);
	if (o->standalone.probe[0] && o->standalone.exit_block > 0 &&
	    o->standalone.exit_block != engine->probe.exit_block)
		return error_set(error, "--exit-block %d: the probe %s was trained for block %d",
		                 o->standalone.exit_block, o->standalone.probe, engine->probe.exit_block);
	return true;
}

bool method_check(const struct swiftlet_options* o, const struct engine* engine, struct error* error) {
	const struct method* method = method_of(o);
	if (!method_has_auxiliary_weights(method, engine, error) || !check_exit(o, engine, error))
		return false;
	return !o->standalone.rejection || !options_plan(o) ||
	       error_set(error,
	                 "--acceptance rejection needs a method with one drafter, such as layerskip: --method %s "
	                 "chooses drafts by what was drawn",
	                 method_name(o->drafting.method));
}
