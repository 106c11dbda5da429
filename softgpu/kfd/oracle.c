/* oracle FILE [--json]: which process holds how many bytes of VRAM on which card, and for what.
 *
 * It buries the dead first, so that a killed process's bytes are gone from the answer, as they are from the
 * card. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *status_name(const struct state_process *process)
{
	return process->status == PROCESS_ALIVE ? "alive" : "ended";
}

/* ---- text ---- */

static void print_card(const struct state *state, int card)
{
	const struct state_card *where = &state->card[card];

	printf("card %d  capacity %lu  used %lu  peak %lu  refused %lu\n", card, where->capacity,
	       where->used.now, where->used.peak, where->refused);
}

static void print_process(const struct state *state, const struct state_process *process)
{
	for (uint32_t card = 0; card < state->cards; card++) {
		if (!process->total[card].peak)
			continue;
		printf("process %d %s %s  card %u  now %lu  peak %lu ", process->pid, process->name,
		       status_name(process), card, process->total[card].now, process->total[card].peak);
		for (int kind = 0; kind < KINDS; kind++)
			if (process->by_kind[card][kind].peak)
				printf(" %s %lu/%lu", kind_name[kind], process->by_kind[card][kind].now,
				       process->by_kind[card][kind].peak);
		putchar('\n');
	}
}

static void print_text(const struct state *state)
{
	for (uint32_t card = 0; card < state->cards; card++)
		print_card(state, (int)card);
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (state->process[i].status != PROCESS_FREE)
			print_process(state, &state->process[i]);
}

/* ---- JSON ---- */

static void print_name_json(const char *name)
{
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			printf("\\%c", *name);
		else
			printf((unsigned char)*name < ' ' ? "\\u%04x" : "%c", (unsigned char)*name);
	}
}

static void print_cards_json(struct state *state)
{
	for (uint32_t card = 0; card < state->cards; card++)
		printf("%s{\"card\":%u,\"gpu_id\":%lu,\"capacity\":%lu,\"used\":%lu,\"peak\":%lu,"
		       "\"available\":%lu,"
		       "\"refused\":%lu}",
		       card ? "," : "", card, state->card[card].gpu_id, state->card[card].capacity,
		       state->card[card].used.now, state->card[card].used.peak,
		       state_available_locked(state, (int)card), state->card[card].refused);
}

static void print_kinds_json(const struct state_gauge *by_kind)
{
	for (int kind = 0; kind < KINDS; kind++)
		printf("%s\"%s\":{\"now\":%lu,\"peak\":%lu}", kind ? "," : "", kind_name[kind],
		       by_kind[kind].now, by_kind[kind].peak);
}

static void print_process_json(const struct state *state, const struct state_process *process)
{
	printf("{\"pid\":%d,\"start_time\":%lu,\"name\":\"", process->pid, process->start_time);
	print_name_json(process->name);
	printf("\",\"alive\":%s,\"cards\":[", process->status == PROCESS_ALIVE ? "true" : "false");
	for (uint32_t card = 0; card < state->cards; card++) {
		printf("%s{\"card\":%u,\"now\":%lu,\"peak\":%lu,\"kinds\":{", card ? "," : "", card,
		       process->total[card].now, process->total[card].peak);
		print_kinds_json(process->by_kind[card]);
		printf("}}");
	}
	printf("]}");
}

static void print_json(struct state *state)
{
	const char *comma = "";

	printf("{\"valid\":%s,\"cards\":[", state_is_valid_locked(state) ? "true" : "false");
	print_cards_json(state);
	printf("],\"processes\":[");
	for (int i = 0; i < MAX_PROCESSES; i++) {
		if (state->process[i].status == PROCESS_FREE)
			continue;
		printf("%s", comma);
		print_process_json(state, &state->process[i]);
		comma = ",";
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	bool wants_json = argc == 3 && !strcmp(argv[2], "--json");
	struct state *state;

	if (argc < 2 || argc > 3 || (argc == 3 && !wants_json)) {
		fputs("usage: oracle FILE [--json]\n", stderr);
		return 2;
	}
	state = access(argv[1], F_OK) ? NULL : state_open(argv[1]);
	if (!state) {
		fprintf(stderr, "oracle: %s: %s\n", argv[1],
			errno == EINVAL ? "not an oracle" : strerror(errno));
		return 1;
	}
	state_lock(state);
	state_reap_locked(state, NULL, NULL);
	if (wants_json)
		print_json(state);
	else
		print_text(state);
	state_unlock(state);
	return 0;
}
