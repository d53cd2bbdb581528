/*
 * aggregator/core/unread.h - what a node has and its agent does not read: nothing of it is in any
 * count of events, so it is said apart.
 */
#ifndef MRD_AGGREGATOR_CORE_UNREAD_H
#define MRD_AGGREGATOR_CORE_UNREAD_H

#include "aggregator/core/json.h"
#include "base/err.h"
#include "proto/wire.h"

typedef struct {
    uint32_t rings_beyond, rings_held, rings_other_boot, directories;
} mrd_unread;

/* As said now. NULL: nothing. */
void mrd_unread_take(mrd_unread *u, const Mrd__Unread *m);
/* The most at one time; of a session, which rings of another boot are no part of. */
void mrd_unread_most(mrd_unread *u, const Mrd__Unread *m);
/* False: nothing. Else text says what, and what to do. */
bool mrd_unread_text(const mrd_unread *u, char text[MRD_WHY_MAX]);
/* As the member "unread" of *to; none when there is nothing. */
void mrd_unread_put(const mrd_unread *u, mrd_json *to);
void mrd_unread_load(mrd_unread *u, const mrd_json *from); /* NULL: nothing */

#endif
