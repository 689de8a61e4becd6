from tests.kit.index_cases import quick_indexes as quick_indexes
