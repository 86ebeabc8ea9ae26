from klamm.coordinator.runtime.outcome cimport Context, Outcome


cpdef Outcome reply(Context context, object response, object seen_offset=*)
