DROP TABLE links, document_versions, documents;
