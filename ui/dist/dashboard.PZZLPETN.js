import"./c.5HNRTCPB.js";import"./c.Q24VHUQZ.js";import"./c.2BWNYGI3.js";import"./c.VZ6YXNUR.js";import"./c.LTMZUQB4.js";import"./c.NIMKLZQK.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";
