/* The draft loop on the device: one graph with a conditional while node.
 *
 * Its body is a one-row pass, which reads the mask from device memory, and a step that decides by struct
 * draft_policy, feeds the chosen token back, and continues or ends the loop. The host sends one small block,
 * launches one graph and reads the steps' results. */
#include <assert.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"

__global__ void end_step_kernel(struct device_slice* s, const struct device_result* result,
                                cudaGraphConditionalHandle handle) {
	const struct device_result* r = &result[s->steps - 1];
	struct device_row* row = &s->row[0];
	const int bin = min(DRAFT_BINS - 1, max(0, (int)(r->max_probability * DRAFT_BINS)));
	s->chance *= s->accept[bin];
	const bool on = r->finite && s->steps < s->max_steps && r->max_probability >= s->threshold &&
	                s->chance >= s->min_reach[s->steps];
	s->steps += on;
	row->token = r->token;
	row->position++;
	row->slot++;
	row->angle++;
	row->pending++;
	cudaGraphSetConditional(handle, on ? 1 : 0);
}

static bool add_while(cudaGraph_t graph, cudaGraphConditionalHandle handle, cudaGraph_t* body,
                      struct error* error) {
	cudaGraphNode_t node;
	cudaGraphNodeParams params = {};
	params.type = cudaGraphNodeTypeConditional;
	params.conditional.handle = handle;
	params.conditional.type = cudaGraphCondTypeWhile;
	params.conditional.size = 1;
#if CUDART_VERSION >= 13000
	CUDA_TRY(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &params), error);
#else
	CUDA_TRY(cudaGraphAddNode(&node, graph, NULL, 0, &params), error);
#endif
	*body = params.conditional.phGraph_out[0];
	return true;
}

/* A step, as launches into the body. No stream is left capturing, whatever fails. */
static bool capture_step(struct cuda_backend* b, cudaGraph_t body, cudaGraphConditionalHandle handle,
                         struct error* error) {
	CUDA_TRY(cudaStreamBeginCaptureToGraph(b->stream, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal),
	         error);
	/* whether a conditional node's body may hold early launches is not documented */
	const enum launches launches = b->launches;
	b->launches = launches == LAUNCHES_EARLY ? LAUNCHES_FUSED : launches;
	launch_whole(b, 8);
	b->launches = launches;
	end_step_kernel<<<1, 1, 0, b->stream>>>(b->slice, b->result, handle);
	CUDA_TRY(cudaStreamEndCapture(b->stream, &body), error);
	return true;
}

static bool build_loop(struct cuda_backend* b, cudaGraph_t graph, struct error* error) {
	cudaGraphConditionalHandle handle;
	cudaGraph_t body;
	CUDA_TRY(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault), error);
	if (!add_while(graph, handle, &body, error) || !capture_step(b, body, handle, error))
		return false;
	CUDA_TRY(cudaGraphInstantiate(&captured_now(b)->draft, graph, 0), error);
	return true;
}

bool draft_capture(struct cuda_backend* b, struct error* error) {
	cudaGraph_t* source = &captured_now(b)->draft_source;
	CUDA_TRY(cudaGraphCreate(source, 0), error);
	return build_loop(b, *source, error);
}

static bool send_loop(struct cuda_backend* b, const struct segment* segment, int32_t token,
                      const struct mask* skip, const struct mask* quantized, bool quantized_head,
                      const struct levels* levels, const struct draft_policy* policy, struct error* error) {
	const struct cuda_cache* c = (const struct cuda_cache*)segment->cache;
	const struct cache* cache = &c->paged.head;
	const int steps = policy->max_steps;
	struct device_slice* s = describe_slice(b, 1, skip, quantized, levels);
	s->steps = 1; /* the one that runs */
	s->max_steps = steps;
	s->chance = 1;
	s->threshold = policy->threshold;
	memcpy(s->accept, policy->accept, sizeof s->accept);
	memcpy(s->min_reach, policy->min_reach, sizeof s->min_reach);
	size_t at = reserve_angles(b, sizeof *s, steps);
	for (int i = 0; i < steps; i++)
		put_angles(b, i, cache->committed + i, cache->prompt_length);
	struct device_row row = describe_row(segment);
	row.token = token;
	row.position = row.slot = row.base = cache->committed; /* a chain after the committed tokens */
	row.pages = (int)at;
	at += list_pages(b, &c->paged, at);
	at += put_page_list(b, segment->pages, at, &row);
	reach_chunks(s, &row, row.position + steps - 1);
	row.want = WANT_TOKEN | WANT_TOP | WANT_GUESS;
	row.top = policy->top;
	s->row[0] = row;
	b->of_row[0] = segment;
	at = describe_states(b, align_place(at)); /* the same for each step: a row goes on from the one before */
	s->head = head_for(b, s, quantized_head);
	CUDA_TRY(cudaMemcpyAsync(b->slice, b->staging, at, cudaMemcpyHostToDevice, b->stream), error);
	return true;
}

static int take_loop(struct cuda_backend* b, const struct draft_policy* policy, struct result* out,
                     struct error* error) {
	struct device_slice* s = b->staging;
	if (!cuda_ok(cudaMemcpyAsync(b->host_result, b->result, (size_t)policy->max_steps * sizeof *b->result,
	                             cudaMemcpyDeviceToHost, b->stream),
	             "cudaMemcpyAsync", error) ||
	    !cuda_ok(cudaMemcpyAsync(s, b->slice, sizeof *s, cudaMemcpyDeviceToHost, b->stream),
	             "cudaMemcpyAsync", error) ||
	    !cuda_ok(cudaStreamSynchronize(b->stream), "cudaStreamSynchronize", error))
		return 0;
	for (int d = 0; d < s->steps; d++) {
		const struct device_result* r = &b->host_result[d];
		if (!r->finite) {
			error_set(error, "the model gave logits that are not finite numbers while drafting");
			return 0;
		}
		give_result(r, WANT_TOP, &out[d]);
	}
	return s->steps;
}

int cuda_draft(struct backend* backend, const struct segment* segment, int32_t token, const struct mask* skip,
               const struct mask* quantized, bool quantized_head, const struct levels* levels,
               const struct draft_policy* policy, struct result* out, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	const bool with_quantized =
	    b->draft_weights && (quantized || quantized_head); /* it may have been given back */
	bool all;
	if (policy->max_steps < 1 || policy->max_steps > MAX_DRAFT) {
		error_set(error, "a draft of %d steps: expected 1 to %d", policy->max_steps, MAX_DRAFT);
		return 0;
	}
	assert(!with_quantized || runs_all_by_channel(b, skip, quantized));
	if (!paged_reserve(segment->cache, policy->max_steps)) {
		error_set(error, "the memory for caches is in use");
		return 0;
	}
	if (!cuda_ok(cudaSetDevice(b->device), "cudaSetDevice", error) ||
	    (with_quantized && !cuda_upload_draft_weights(backend, SIZE_MAX, &all, error)) ||
	    !send_loop(b, segment, token, skip, quantized, quantized_head, levels, policy, error) ||
	    !cuda_ok(cudaGraphLaunch(b->captured[with_quantized].draft, b->stream), "cudaGraphLaunch", error))
		return 0;
	const int steps = take_loop(b, policy, out, error);
	struct paged_cache* c = (struct paged_cache*)segment->cache;
	for (int i = 0; i < steps; i++)
		c->row[i] = {i > 0 ? out[i - 1].token : token, i - 1, i, segment->base, 2 * b->shape.n_blocks, 0};
	c->head.pending = steps;
	return steps;
}
