/* A process dies with the oracle's lock held: between an extent and its gauges, in a release whose hold is gone, in a
 * burial that has just begun. Says "ok" when the next owner finds sums that agree and nothing that nobody holds.
 * argv[1]: a file to use as the oracle. */
#include "../../softgpu/kfd/real.c"
#include "../../softgpu/kfd/state.c"

#include <sys/wait.h>

#undef NDEBUG
#include <assert.h>

static struct state *state;

/* Has a child do so and die, and takes the lock over. */
static void die_after(void (*what)(int row), int row)
{
	if (!fork()) {
		state_lock(state);
		what(row);
		_exit(0);
	}
	wait(NULL);
	state_lock(state);
	assert(state_is_valid_locked(state));
}

static void grow(int row)
{
	state->extent[row].size += 4096;
}

static void let_go(int row)
{
	state->extent[row].holders[0] = 0;
}

static void end_its_creator(int row)
{
	state->process[state->extent[row].creator].status = PROCESS_ENDED;
}

int main(int argc, char **argv)
{
	struct state_identity self = state_self(), other = {.pid = 1};
	int process, heir, row, shared;

	state = argc == 2 ? state_open(argv[1]) : NULL;
	assert(state);
	state_lock(state);
	state->cards = 1;
	state->card[0].capacity = 1 << 30;
	process = state_claim_locked(state, &self, NULL, NULL);
	assert(!state_take_locked(state, process, 0, 1 << 20, true, KIND_USER, &row));
	assert(state_is_valid_locked(state));
	state_unlock(state);
	die_after(grow, row);
	assert(state->card[0].used.now == (1 << 20) + 4096);
	state_unlock(state);
	die_after(let_go, row);
	assert(state->card[0].used.now == 0);

	heir = state_claim_locked(state, &other, NULL, NULL);
	assert(heir != process);
	assert(!state_take_locked(state, process, 0, 1 << 20, true, KIND_USER, &row));
	assert(!state_take_locked(state, process, 0, 2 << 20, true, KIND_USER, &shared));
	state_hold_locked(state, shared, heir);
	state_unlock(state);
	die_after(end_its_creator, row);
	assert(state->card[0].used.now == 2 << 20);
	assert(state->process[heir].total[0].now == 2 << 20);
	state_unlock(state);
	puts("ok");
	return 0;
}
