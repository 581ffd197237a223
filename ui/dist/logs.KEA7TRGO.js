import"./c.FIWASVTN.js";import"./c.N2CTHR5Q.js";import"./c.67XCGD6B.js";import"./c.ZWLQM73E.js";
