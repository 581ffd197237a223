import"./c.6YKA6QRJ.js";import"./c.Q24VHUQZ.js";import"./c.2BWNYGI3.js";import"./c.VZ6YXNUR.js";import"./c.SEG7D4G7.js";import"./c.NIMKLZQK.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";
