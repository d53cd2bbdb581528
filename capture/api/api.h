/*
 * capture/api/api.h - helpers that the sources behind meridian.h share. Internal.
 */
#ifndef MRD_CAPTURE_API_API_H
#define MRD_CAPTURE_API_API_H

#include "capture/api/record.h"
#include "capture/api/stats.h"
#include "capture/api/thread.h"
#include "capture/meridian.h"

#define MRD_API_ARGS_MAX 64 /* arguments of an annotation that are recorded */

struct mrd_domain {
    uint32_t id; /* id of the domain's name */
    struct mrd_domain *next;
};

static inline uint32_t
mrd_domain_id(const mrd_domain *domain)
{
    return domain == NULL ? 0 : domain->id;
}

/* Returns the id of a text. If the process has too many names, returns the id of "(too many
 * names)". */
uint32_t mrd_api_name(const char *text);
/* As mrd_api_name, and stores the id in *keep for later calls. The id is not stored if a signal
 * handler interrupted the library and could not add the name, because a later call can add it. */
uint32_t mrd_api_name_once(const char *text, uint32_t *keep);
/* Adds a finished span to the statistics if they are enabled, and writes the periodic dump if it is
 * due. */
void mrd_api_finished(const mrd_rec_what *what, uint64_t ticks);

#endif
