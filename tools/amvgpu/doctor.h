/* The findings of amvgpu doctor and the examinations that make them; each examination looks at one side of
 * the matter. */
#ifndef AMVGPU_DOCTOR_H
#define AMVGPU_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "environment.h"
#include "snapshot.h"

enum finding_level { LEVEL_LOSS, LEVEL_WARNING, LEVEL_NOTE };

enum finding_code {
#define FINDING(code, level, what, remedy) FINDING_##code,
#include "doctor.def"
#undef FINDING
	FINDINGS,
};

struct finding {
	const char *code;
	enum finding_level level;
	const char *what;
	const char *remedy;
	char *detail; /* owned; NULL: nothing more to say */
};

/* A process that ran under our eyes, as it was when it ended (or when time was up). */
struct patient {
	int pid;
	bool is_probe;
	char command[16];
	bool has_library;
	bool has_runtime;
	bool has_slot;
	char *region; /* owned; NULL without a slot */
	struct ledger_process slot;
};

struct doctor {
	const char *sysroot; /* "": the machine's own /proc, /sys and /dev */
	char *library;       /* our entry of LD_AUDIT, or else what `run` would take; owned, NULL: none */
	char **program;      /* NULL: none named */
	double seconds;      /* 0: until the program ends */
	struct environment environment;
	struct finding *findings;
	unsigned count;
	struct patient *patients;
	unsigned patient_count;
	bool is_stdout_ours; /* JSON: the program's own words go to stderr */
	bool has_hip;        /* the probe found a runtime */
	int program_status;  /* as waitpid gives it */
};

/* Notes a finding once for each detail; format may be NULL. */
void doctor_note(struct doctor *d, enum finding_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_note_reason(struct doctor *d, enum ledger_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool doctor_has(const struct doctor *d, enum finding_code code);
const char *doctor_level_word(enum finding_level level);

void doctor_examine_environment(struct doctor *d); /* variables of this process and of its pod */
void doctor_examine_library(struct doctor *d);     /* the file that LD_AUDIT names */
void doctor_examine_program(struct doctor *d);     /* the file that would be started, what it needs */
void doctor_examine_machine(struct doctor *d);     /* /dev/kfd, dmem, the region's path */
void doctor_examine_processes(struct doctor *d);   /* who uses the GPU without us */
void doctor_start_program(struct doctor *d);       /* runs it to its end under the library, reads back */
void doctor_start_probe(
    struct doctor *d); /* the same with a small program of our own that asks HIP and HSA */

/* The child's side of the probe: writes what it learns to fd, one fact a line. The exit status. */
int doctor_probe(int fd);

/* Runs argv until it ends, its descendants too where the kernel lets us watch them; adds those that are worth
 * showing to patients. The status as waitpid gives it. */
int patient_watch(struct doctor *d, char **argv, bool is_probe, double seconds);

#endif
