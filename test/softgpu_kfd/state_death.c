/* A process dies with the oracle's lock held, between an extent and its gauges. Says "ok" when the next owner finds sums
 * that agree. argv[1]: a file to use as the oracle. */
#include "../../softgpu/kfd/real.c"
#include "../../softgpu/kfd/state.c"

#include <sys/wait.h>

#undef NDEBUG
#include <assert.h>

int main(int argc, char **argv)
{
	struct state *state = argc == 2 ? state_open(argv[1]) : NULL;
	struct state_identity self = state_self();
	int process, row;

	assert(state);
	state_lock(state);
	state->cards = 1;
	state->card[0].capacity = 1 << 30;
	process = state_claim_locked(state, &self, NULL, NULL);
	assert(!state_take_locked(state, process, 0, 1 << 20, true, KIND_USER, &row));
	assert(state_is_valid_locked(state));
	state_unlock(state);
	if (!fork()) {
		state_lock(state);
		state->extent[row].size += 4096; /* as if in the middle of a change */
		_exit(0);
	}
	wait(NULL);
	state_lock(state);
	assert(state_is_valid_locked(state));
	assert(state->card[0].used.now == (1 << 20) + 4096);
	state_unlock(state);
	puts("ok");
	return 0;
}
