/*
 * capture/api/api.h - helpers for the sources that implement meridian.h. Internal.
 */
#ifndef MRD_CAPTURE_API_API_H
#define MRD_CAPTURE_API_API_H

#include "capture/api/record.h"
#include "capture/api/stats.h"
#include "capture/api/thread.h"
#include "capture/meridian.h"

#define MRD_API_ARGS_MAX 64 /* maximum number of recorded arguments of an annotation */

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
/* Like mrd_api_name, but also stores the id in *keep for later calls. The id is not stored if a
 * signal handler interrupted the library and so could not add the name. A later call can then add
 * the name. */
uint32_t mrd_api_name_once(const char *text, uint32_t *keep);
/* Adds a finished span to the statistics if they are enabled, and writes the periodic dump if it is
 * due. */
void mrd_api_finished(const mrd_rec_what *what, uint64_t ticks);

#endif
