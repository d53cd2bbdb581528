/* capture/sources.h - the kinds of events that can be recorded, as bits. Internal. */
#ifndef MRD_CAPTURE_SOURCES_H
#define MRD_CAPTURE_SOURCES_H

/* Sources, as in MERIDIAN_CAPTURE. */
enum {
    MRD_CAP_API = 1, /* "api": calls of the Neuron runtime */
    /* "systrace": the events that the Neuron runtime itself records in its system trace */
    MRD_CAP_SYS = 2,
    MRD_CAP_ANNOTATE = 4, /* "annotations": events of the functions in meridian.h */
    MRD_CAP_MODEL = 8,    /* "models": loads and unloads of models */
    MRD_CAP_NOTICE = 16,  /* messages about the recording itself; on if any other source is on */
};

#endif
