/*
 * base/near.h - which of the known words a mistyped one was meant to be: for options, commands,
 * formats, keys, event types.
 *
 * Near is little different by edits (insert, delete, replace, swap of neighbours), from the whole
 * of a name or from a part of it at its dashes: "ouput" is near "output-dir"; and a word whose parts are all in
 * a name, or that has all parts of one, is near that: "job-id" is near "job"; "fmt" is near "format", whose letters it leaves out. Words longer than 64
 * bytes are near nothing. Threads: pure.
 */
#ifndef MRD_BASE_NEAR_H
#define MRD_BASE_NEAR_H

#include <stddef.h>

#define MRD_NEAR_MAX  3
#define MRD_NEAR_TEXT 256

/* The first of the nearest names, NULL when nothing is near. */
const char *mrd_nearest(const char *word, const char *const *names, size_t n);
/* ": did you mean --a or --b?" with dashes "--"; empty when nothing is near. Returns text. */
char *mrd_near_text(const char *word, const char *const *names, size_t n, const char *dashes,
                    char text[MRD_NEAR_TEXT]);

#endif
