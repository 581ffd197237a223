import"./c.3QPKH25E.js";import"./c.W7VN5GBK.js";
