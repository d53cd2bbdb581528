/*
 * trace/import/capture_names.h - parses names of files of the Neuron runtime and its tools, such as
 * "i-0abc_pid_12_vnc_0_session_3.ntff" and "rank3.json". Returns the kind of a file, and the
 * numbers that follow words. Stateless.
 */
#ifndef MRD_TRACE_IMPORT_CAPTURE_NAMES_H
#define MRD_TRACE_IMPORT_CAPTURE_NAMES_H

#include "base/buf.h"

/* Returns the number directly after the first occurrence of `word` in `name`. Returns MRD_NONE if
 * there is no such number. */
int64_t mrd_capture_number(mrd_str name, const char *word);
/* Returns the number after the last occurrence of `word` in `text`, in upper or lower case: 3 in
 * "x/Rank-3.json". The characters " -_=:#" may stand between word and number. An occurrence
 * directly after a letter does not count. Returns MRD_NONE if there is no number. */
int64_t mrd_number_after(mrd_str text, const char *word);
/* Splits a name such as "i-0abc_pid_4711_nc_0.ntff" into instance, pid and the text after the pid.
 * Directory names such as "i-0abc-4711" are accepted, too. Returns false if the name contains no
 * instance and pid. */
bool mrd_capture_split(mrd_str name, mrd_str *ret_instance, int64_t *ret_pid, mrd_str *ret_rest);
/* Returns the kind of a file by its name, such as "NTFF" or "NEFF". NULL if the kind is unknown.
 * The text is static. */
const char *mrd_capture_kind(mrd_str name);

#endif
