/*
 * base/near.h - suggests the known word that a mistyped word was probably meant to be. Used for
 * options, commands, formats, keys and event types.
 *
 * A word is near a name in three cases. It differs by few edits (insert, delete, replace, swap of
 * neighbours) from the name or from its parts between dashes: "ouput" is near "output-dir". Or all
 * parts of one of them occur in the other: "job-id" is near "job". Or it abbreviates the name:
 * "fmt" is near "format". Words longer than 64 bytes are near nothing. Threads: pure.
 */
#ifndef MRD_BASE_NEAR_H
#define MRD_BASE_NEAR_H

#include <stddef.h>

#define MRD_NEAR_MAX  3
#define MRD_NEAR_TEXT 256

/* Returns the name nearest to the word (the first of several), or NULL if none is near. */
const char *mrd_nearest(const char *word, const char *const *names, size_t n);
/* Writes ": did you mean --a or --b?" with the nearest names, or "" if none is near. `dashes`
 * stands before each name. Returns `text`. */
char *mrd_near_text(const char *word, const char *const *names, size_t n, const char *dashes,
                    char text[MRD_NEAR_TEXT]);

#endif
