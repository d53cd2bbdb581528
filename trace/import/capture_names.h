/*
 * trace/import/capture_names.h - parses file names of the Neuron runtime and its tools. Finds the
 * kind of a file, and numbers that follow words ("i-0abc_pid_12_vnc_0_session_3.ntff",
 * "rank3.json"). Stateless.
 */
#ifndef MRD_TRACE_IMPORT_CAPTURE_NAMES_H
#define MRD_TRACE_IMPORT_CAPTURE_NAMES_H

#include "base/buf.h"

/* Returns the number directly after the first `word` in name, or MRD_NONE if there is none. */
int64_t mrd_capture_number(mrd_str name, const char *word);
/* Returns the number after the last `word` of a text, whatever its case: 3 in "x/Rank-3.json".
 * Characters of " -_=:#" may stand between word and number. A word that follows a letter does not
 * count. Returns MRD_NONE if there is no number. */
int64_t mrd_number_after(mrd_str text, const char *word);
/* Splits the name of a file or directory that begins with a process, such as
 * "i-0abc_pid_4711_nc_0.ntff", after the pid. The directory name "i-0abc-4711" is accepted, too.
 * Returns false if the name identifies no process. */
bool mrd_capture_split(mrd_str name, mrd_str *ret_instance, int64_t *ret_pid, mrd_str *ret_rest);
/* Returns the kind of a file by its name: "NTFF", "NEFF" and others. NULL if the kind is unknown.
 * Static. */
const char *mrd_capture_kind(mrd_str name);

#endif
