package org.apache.spark.sql.catalogext

/** The catalog that `spark.sql.catalog.<name>` names: every table in it is one of the index. */
class CatalogExtCatalog extends CatalogBase
