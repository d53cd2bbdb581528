/* capture/sources.h - the kinds of events that can be recorded, as bits. Internal. */
#ifndef MRD_CAPTURE_SOURCES_H
#define MRD_CAPTURE_SOURCES_H

/* Sources, as in MERIDIAN_CAPTURE. */
enum {
    MRD_CAP_API = 1,      /* "api": runtime calls, data source 2 */
    MRD_CAP_SYS = 2,      /* "systrace": the runtime's system trace, data source 1 */
    MRD_CAP_ANNOTATE = 4, /* "annotations": meridian.h, data source 3 */
    MRD_CAP_MODEL = 8,    /* "models": loads and unloads */
    MRD_CAP_NOTICE = 16,  /* always on with any other */
};

#endif
