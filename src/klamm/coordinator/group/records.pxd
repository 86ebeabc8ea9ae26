cpdef bytes encode_records(object records, object timestamp_ms, object codec=*, object base_offset=*)
